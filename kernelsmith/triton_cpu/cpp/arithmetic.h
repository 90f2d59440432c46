// Integers and floats with the results that a GPU has, and reductions across lanes.

// ---- integers: division by zero and overflow give a value, as on a GPU, instead of a signal ----

template <class T> KS_INLINE T ks_divide(T a, T b) { return b == 0 ? (T)-1 : b == (T)-1 && (T)-1 < 0 ? (T)(0 - (u64)a) : (T)(a / b); }
template <class T> KS_INLINE T ks_remainder(T a, T b) { return b == 0 ? a : b == (T)-1 && (T)-1 < 0 ? (T)0 : (T)(a % b); }
template <class V> KS_INLINE V ks_vdivide(V a, V b) { V r; KS_EACH_LANE r[l] = ks_divide(a[l], b[l]); return r; }
template <class V> KS_INLINE V ks_vremainder(V a, V b) { V r; KS_EACH_LANE r[l] = ks_remainder(a[l], b[l]); return r; }
// A float64 quotient of two int32 never rounds up to the next integer, so truncation is exact.
KS_INLINE vi32 ks_vdivide(vi32 a, vi32 b) {
  vi32 safe = b == 0 ? ks_splat<vi32>(1) : b;
  vf64 q = __builtin_convertvector(a, vf64) / __builtin_convertvector(safe, vf64);
  return b == 0 ? ks_splat<vi32>(-1) : (vi32)__builtin_convertvector(__builtin_convertvector(q, vi64), vu32);
}
KS_INLINE vi32 ks_vremainder(vi32 a, vi32 b) {
  return b == 0 ? a : (vi32)((vu32)a - (vu32)ks_vdivide(a, b) * (vu32)b);
}
// Shifts by the width or more leave nothing but the sign. The shift count is unsigned.
template <class V, class U> KS_INLINE V ks_shift_left(V a, U b) {
  constexpr int n = 8 * sizeof(a[0]);
  return b < n ? a << (V)(b & (n - 1)) : V{};
}
template <class V, class U> KS_INLINE V ks_shift_right(V a, U b) {
  constexpr int n = 8 * sizeof(a[0]);
  return b < n ? a >> (V)(b & (n - 1)) : a < 0 ? V{} - 1 : V{};
}
#define KS_SHIFTS(T, U)                                                                                  \
  KS_INLINE T ks_shift_left(T a, U b) { return b < 8 * sizeof(T) ? (T)((u64)a << b) : (T)0; }            \
  KS_INLINE T ks_shift_right(T a, U b) { return b < 8 * sizeof(T) ? (T)(a >> b) : a < 0 ? (T)-1 : (T)0; }
KS_SHIFTS(i8, u8) KS_SHIFTS(i16, u16) KS_SHIFTS(i32, u32) KS_SHIFTS(i64, u64)
KS_SHIFTS(u8, u8) KS_SHIFTS(u16, u16) KS_SHIFTS(u32, u32) KS_SHIFTS(u64, u64)
KS_INLINE u32 ks_mulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
KS_INLINE u64 ks_mulhi(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
KS_INLINE vu32 ks_mulhi(vu32 a, vu32 b) {
  return __builtin_convertvector(__builtin_convertvector(a, vu64) * __builtin_convertvector(b, vu64) >> 32, vu32);
}
KS_INLINE vu64 ks_mulhi(vu64 a, vu64 b) { vu64 r; KS_EACH_LANE r[l] = ks_mulhi((u64)a[l], (u64)b[l]); return r; }

// ---- floats: maxnumf ignores NaN, maximumf hands it on; for both -0 is less than +0, as PTX has it ----

// A function of scalars on vectors: the result of type R, lane by lane.
template <class R, class F, class... A> KS_INLINE R ks_lanes(F f, A... a) {
  R r;
  KS_EACH_LANE r[l] = f(a[l]...);
  return r;
}
KS_INLINE f32 ks_abs(f32 x) { return ks_f32_of(ks_bits_of(x) & 0x7fffffff); }
KS_INLINE f64 ks_abs(f64 x) { return ks_f64_of(ks_bits_of(x) & ~(1ul << 63)); }
KS_INLINE vf32 ks_abs(vf32 x) { return (vf32)((vu32)x & 0x7fffffffu); }
KS_INLINE vf64 ks_abs(vf64 x) { return (vf64)((vu64)x & ~(1ul << 63)); }
KS_INLINE f32 ks_both(f32 a, f32 b) { return ks_f32_of(ks_bits_of(a) & ks_bits_of(b)); }
KS_INLINE f64 ks_both(f64 a, f64 b) { return ks_f64_of(ks_bits_of(a) & ks_bits_of(b)); }
KS_INLINE vf32 ks_both(vf32 a, vf32 b) { return (vf32)((vu32)a & (vu32)b); }
KS_INLINE vf64 ks_both(vf64 a, vf64 b) { return (vf64)((vu64)a & (vu64)b); }
KS_INLINE f32 ks_either(f32 a, f32 b) { return ks_f32_of(ks_bits_of(a) | ks_bits_of(b)); }
KS_INLINE f64 ks_either(f64 a, f64 b) { return ks_f64_of(ks_bits_of(a) | ks_bits_of(b)); }
KS_INLINE vf32 ks_either(vf32 a, vf32 b) { return (vf32)((vu32)a | (vu32)b); }
KS_INLINE vf64 ks_either(vf64 a, vf64 b) { return (vf64)((vu64)a | (vu64)b); }
// Equal numbers other than zeros have equal bits. (vrangeps would do, but it hands on signalling NaNs.)
template <class T> KS_INLINE T ks_maxnum(T a, T b) {
  return ks_select(ks_mask(a == b), ks_both(a, b), ks_select(ks_mask(a > b) | ks_mask(b != b), a, b));
}
template <class T> KS_INLINE T ks_minnum(T a, T b) {
  return ks_select(ks_mask(a == b), ks_either(a, b), ks_select(ks_mask(a < b) | ks_mask(b != b), a, b));
}
template <class T> KS_INLINE T ks_maximum(T a, T b) {
  T unequal = ks_select(ks_mask(a > b), a, ks_select(ks_mask(a < b), b, a + b));
  return ks_select(ks_mask(a == b), ks_both(a, b), unequal);
}
template <class T> KS_INLINE T ks_minimum(T a, T b) {
  T unequal = ks_select(ks_mask(a < b), a, ks_select(ks_mask(a > b), b, a + b));
  return ks_select(ks_mask(a == b), ks_either(a, b), unequal);
}
template <class T> KS_INLINE T ks_larger(T a, T b) { return ks_select(ks_mask(a > b), a, b); }
template <class T> KS_INLINE T ks_smaller(T a, T b) { return ks_select(ks_mask(a < b), a, b); }
KS_INLINE f32 ks_madd(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
KS_INLINE f64 ks_madd(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
#if defined(KS_AVX512)
KS_INLINE vf32 ks_madd(vf32 a, vf32 b, vf32 c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, (u16)-1, 4); }
#elif defined(KS_F16C)
KS_INLINE vf32 ks_madd(vf32 a, vf32 b, vf32 c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#elif defined(__FMA__)
KS_INLINE vf32 ks_madd(vf32 a, vf32 b, vf32 c) { return __builtin_ia32_vfmaddps(a, b, c); }
#else
KS_INLINE vf32 ks_madd(vf32 a, vf32 b, vf32 c) { return a * b + c; }
#endif
KS_INLINE vf64 ks_madd(vf64 a, vf64 b, vf64 c) { vf64 r; KS_EACH_LANE r[l] = ks_madd(a[l], b[l], c[l]); return r; }
KS_INLINE i32 ks_madd(i32 a, i32 b, i32 c) { return (i32)((u32)a * (u32)b + (u32)c); }
KS_INLINE vi32 ks_madd(vi32 a, vi32 b, vi32 c) { return (vi32)((vu32)a * (vu32)b + (vu32)c); }

// ---- horizontal reductions: halve until one lane is left ----

template <class V> KS_INLINE V ks_swap(V a, int n) {
  decltype(a < a) at;
  for (int l = 0; l < KS_W; ++l) at[l] = l ^ n;
  return ks_shuffle(a, at);
}
// What the lane `distance` before this one holds (behind it, for a negative one); the lane's own where there is none.
template <class V> KS_INLINE V ks_earlier(V a, int distance) {
  decltype(a < a) at;
  for (int l = 0; l < KS_W; ++l) at[l] = (u32)(l - distance) < KS_W ? l - distance : l;
  return ks_shuffle(a, at);
}
KS_INLINE vi32 ks_has_earlier(int distance) {
  vi32 r;
  for (int l = 0; l < KS_W; ++l) r[l] = (u32)(l - distance) < KS_W ? -1 : 0;
  return r;
}
#define KS_FOLD(NAME, EXPR)                                                          \
  template <class S, class V> KS_INLINE S ks_fold_##NAME(V a) {                      \
    _Pragma("GCC unroll 8") for (int n = KS_W / 2; n; n /= 2) {                      \
      V b = ks_swap(a, n);                                                           \
      a = EXPR;                                                                      \
    }                                                                                \
    return (S)a[0];                                                                  \
  }
KS_FOLD(add, a + b)
KS_FOLD(multiply, a *b)
KS_FOLD(and, a &b)
KS_FOLD(or, a | b)
KS_FOLD(xor, a ^ b)
KS_FOLD(larger, a > b ? a : b)
KS_FOLD(smaller, a < b ? a : b)
KS_FOLD(maxnum, ks_maxnum(a, b))
KS_FOLD(minnum, ks_minnum(a, b))
KS_FOLD(maximum, ks_maximum(a, b))
KS_FOLD(minimum, ks_minimum(a, b))
