// Conversions that need more than one instruction, KS_W lanes at a time. Split at the "//@" lines.

//@ ks_widen_f8
// M mantissa bits, exponent bias B; codes above INFINITE (itself, if it is no infinity: MAX + 1) and NAN_CODE are NaN.
template <int M, int B, u32 INFINITE, u32 NAN_CODE> KS_INLINE vf32 ks_widen_f8(vi8 x) {
  vu32 code = ks_convert<vu32>((vu8)x), size = code & 0x7f;
  vf32 normal = (vf32)((size << (23 - M)) + ((127 - B) << 23));
  vf32 tiny = ks_convert<vf32>((vi32)size) * ks_f32_of((u32)(128 - B - M) << 23);
  vf32 y = size < (1u << M) ? tiny : normal;
  if (INFINITE < NAN_CODE) y = size == INFINITE ? ks_splat<vf32>(__builtin_inff()) : y;
  vi32 odd = NAN_CODE == 0x80 ? (vi32)(code == 0x80u) : INFINITE < NAN_CODE ? (vi32)(size > INFINITE) : (vi32)(size == NAN_CODE);
  y = odd ? ks_splat<vf32>(__builtin_nanf("")) : y;
  return (vf32)((vu32)y | (code & 0x80) << 24);
}

//@ ks_narrow_f8
// Rounds to nearest, ties to even; what is larger than the number or infinity that CEILING encodes becomes that.
template <int M, int B, u32 CEILING, u32 NAN_CODE> KS_INLINE vi8 ks_narrow_f8(vf32 x) {
  vu32 bits = (vu32)x, size = bits & 0x7fffffffu, sign = bits >> 24 & 0x80;
  vu32 normal = (size - ((u32)(127 - B) << 23) + ((1u << (22 - M)) - 1) + (size >> (23 - M) & 1)) >> (23 - M);
  const u32 shift = (u32)(151 - B - M) << 23;  // the float whose last bit is the format's smallest number
  vu32 tiny = (vu32)((vf32)size + ks_f32_of(shift)) - shift;
  vu32 code = size < ((u32)(128 - B) << 23) ? tiny : normal;
  code = code > CEILING ? ks_splat<vu32>(CEILING) : code;
  code = size > 0x7f800000u ? ks_splat<vu32>(NAN_CODE) : code;
  code |= NAN_CODE == 0x80 ? (code != 0 ? sign : vu32{}) : sign;
  return ks_convert<vi8>((vi32)code);
}

//@ ks_truncate
// The nearest number of a narrower format towards zero, as float32; MAX is that format's largest.
template <int M, int B, u32 MAX> KS_INLINE vf32 ks_truncate(vf32 x) {
  vu32 bits = (vu32)x, size = bits & 0x7fffffffu;
  vu32 kept = (size > 0x7f800000u ? size | 0x400000u : size) & ~((1u << (23 - M)) - 1);
  if (B < 127) {
    const f32 unit = ks_f32_of((u32)(128 - B - M) << 23), units = ks_f32_of((u32)(126 + B + M) << 23);
    vf32 small = size < ((u32)(128 - B) << 23) ? (vf32)size : vf32{};
    vf32 whole = ks_convert<vf32>(ks_convert<vi32>(small * units)) * unit;
    kept = size < ((u32)(128 - B) << 23) ? (vu32)whole : kept;
  }
  kept = (size > MAX) & (size < 0x7f800000u) ? ks_splat<vu32>(MAX) : kept;
  return (vf32)(kept | (bits & 0x80000000u));
}

//@ ks_toward_zero
KS_INLINE f32 ks_toward_zero(f64 x) {
  f32 y = (f32)x;
  return ks_abs((f64)y) > ks_abs(x) ? ks_f32_of(ks_bits_of(y) - 1) : y;
}
KS_INLINE vf32 ks_toward_zero(vf64 x) { vf32 y; KS_EACH_LANE y[l] = ks_toward_zero((f64)x[l]); return y; }

//@ ks_fused
// a * b + c of 16-bit floats, rounded to odd, so that rounding it to 16 bits is the only rounding. The product is exact in
// float64; what its sum with c lost is exact too (two-sum: Knuth, "The Art of Computer Programming", volume 2, 4.2.2).
KS_INLINE f32 ks_fused(f32 a, f32 b, f32 c) {
  const f64 product = (f64)a * b, sum = product + c, part = sum - product;
  const f64 lost = (product - (sum - part)) + (c - part);
  u64 bits = ks_bits_of(sum);
  if ((lost > 0 || lost < 0) && !(bits & 1)) bits += (lost > 0) == (sum > 0) ? 1 : -1;
  return ks_to_odd(ks_f64_of(bits));
}

//@ ks_whole
// Truncation to integers with what a GPU's `cvt.rzi` gives out of range: the nearest integer there is, and for a NaN the
// sign bit alone if either side has 64 bits, else zero (PTX ISA 8.5, "cvt"). S is the integer, R lanes that hold it.
template <class R, class S, class F> KS_INLINE R ks_whole(F x) {
  constexpr int bits = 8 * sizeof(S);
  constexpr S top = (S)-1 < 0 ? (S)((1ul << (bits - 1)) - 1) : (S)-1, bottom = (S)-1 < 0 ? (S)(1ul << (bits - 1)) : 0;
  if constexpr (bits <= 16 && sizeof(x[0]) == 4) {  // the limits are float32 numbers
    const F least = F{} + (f32)bottom, most = F{} + (f32)top;
    const F known = x == x ? x : F{}, floored = known > least ? known : least;
    return ks_convert<R>(floored < most ? floored : most);
  }
  const F low = F{} + (decltype(x[0] + 0))bottom, high = F{} + 2 * (decltype(x[0] + 0))((top >> 1) + 1);
  const vi32 under = ks_mask(x < low), over = ks_mask(x >= high);
  R r = ks_convert<R>(ks_select(ks_mask(x >= low) & ~over, x, F{}));
  r = ks_select(over, ks_splat<R>(top), ks_select(under, ks_splat<R>(bottom), r));
  if (bits == 64 || sizeof(x[0]) == 8) r = ks_select(ks_mask(x != x), ks_splat<R>((S)(1ul << (bits - 1))), r);
  return r;
}
