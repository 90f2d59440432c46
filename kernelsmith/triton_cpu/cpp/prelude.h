// What every generated kernel starts with. KS_W (float32 lanes) and KS_SPLAT(s) ({s, s, ...}) are defined above this text,
// KS_AVX512 and KS_F16C where the level has them. No headers: they cost more to compile than most kernels.
//
// A tensor's elements travel KS_W at a time, whatever their size. Predicates are vi32 with 0 or -1 in each lane; fp16 and
// bf16 travel as float32 and are rounded after every operation. Scalars and vectors share function names.

#define KS_INLINE static inline __attribute__((always_inline))
#define KS_EACH_LANE _Pragma("GCC unroll 1") for (int l = 0; l < KS_W; ++l)

typedef float f32;
typedef double f64;

#define KS_VECTOR(T)                                                        \
  typedef T v##T __attribute__((vector_size(sizeof(T) * KS_W)));            \
  typedef T a##T __attribute__((may_alias, aligned(1)));                    \
  typedef T w##T __attribute__((vector_size(sizeof(T) * KS_W), may_alias, aligned(1)));
KS_VECTOR(i8) KS_VECTOR(i16) KS_VECTOR(i32) KS_VECTOR(i64)
KS_VECTOR(u8) KS_VECTOR(u16) KS_VECTOR(u32) KS_VECTOR(u64)
KS_VECTOR(f32) KS_VECTOR(f64)

template <class V, class T> KS_INLINE V ks_splat(T s) {
  const __typeof__(V{}[0]) x = (__typeof__(V{}[0]))s;
  return V KS_SPLAT(x);
}

// Lanes of `a`, or of `a` and `b` behind each other, by number. Clang has no builtin for numbers that are no literals, but
// makes a shuffle of the loop where they turn out to be constant.
#if defined(__clang__)
template <class V, class M> KS_INLINE V ks_shuffle(V a, M m) {
  constexpr int N = sizeof(V) / sizeof(a[0]);
  V r;
#pragma clang loop unroll(full)
  for (int l = 0; l < N; ++l) r[l] = a[m[l]];
  return r;
}
template <class V, class M> KS_INLINE V ks_shuffle(V a, V b, M m) {
  constexpr int N = sizeof(V) / sizeof(a[0]);
  V r;
#pragma clang loop unroll(full)
  for (int l = 0; l < N; ++l) r[l] = m[l] < N ? a[m[l]] : b[m[l] - N];
  return r;
}
#else
template <class V, class M> KS_INLINE V ks_shuffle(V a, M m) { return __builtin_shuffle(a, m); }
template <class V, class M> KS_INLINE V ks_shuffle(V a, V b, M m) { return __builtin_shuffle(a, b, m); }
#endif

template <class V> KS_INLINE V ks_iota() {
  V r;
  for (int l = 0; l < KS_W; ++l) r[l] = l;
  return r;
}

// start + stride * lane, wrapping
KS_INLINE vi32 ks_ramp(i32 start, i32 stride) {
  return (vi32)(ks_splat<vu32>((u32)start) + ks_iota<vu32>() * ks_splat<vu32>((u32)stride));
}
KS_INLINE vi64 ks_ramp(i64 start, i64 stride) {
  return (vi64)(ks_splat<vu64>((u64)start) + ks_iota<vu64>() * ks_splat<vu64>((u64)stride));
}

// (x + lane) / step % size
KS_INLINE vi32 ks_digit(i64 x, u32 step, u32 size) { return (vi32)(((u32)x + ks_iota<vu32>()) / step % size); }

// ---- conversions of integers: g++ would do each in several pieces ----

template <class To, class From> KS_INLINE To ks_convert(From x) { return __builtin_convertvector(x, To); }
#if defined(KS_AVX512)
#define KS_CONVERT(FROM, TO, INSTRUCTION)                                                            \
  template <> inline __attribute__((always_inline)) TO ks_convert<TO, FROM>(FROM x) {                \
    TO r;                                                                                            \
    __asm__(INSTRUCTION " %1, %0" : "=v"(r) : "v"(x));                                               \
    return r;                                                                                        \
  }
KS_CONVERT(vu8, vu16, "vpmovzxbw") KS_CONVERT(vu8, vu32, "vpmovzxbd") KS_CONVERT(vu16, vu32, "vpmovzxwd")
KS_CONVERT(vi8, vi16, "vpmovsxbw") KS_CONVERT(vi8, vi32, "vpmovsxbd") KS_CONVERT(vi16, vi32, "vpmovsxwd")
KS_CONVERT(vu32, vu16, "vpmovdw") KS_CONVERT(vu32, vu8, "vpmovdb") KS_CONVERT(vu16, vu8, "vpmovwb")
KS_CONVERT(vi32, vi16, "vpmovdw") KS_CONVERT(vi32, vi8, "vpmovdb") KS_CONVERT(vi16, vi8, "vpmovwb")
KS_CONVERT(vi32, vu16, "vpmovdw") KS_CONVERT(vi32, vu8, "vpmovdb")
KS_CONVERT(vu8, vi16, "vpmovzxbw") KS_CONVERT(vu8, vi32, "vpmovzxbd") KS_CONVERT(vu16, vi32, "vpmovzxwd")
#endif
#define KS_CONVERT_BY_WAY_OF_I32(FROM, TO)                                                           \
  template <> inline __attribute__((always_inline)) TO ks_convert<TO, FROM>(FROM x) {                \
    return ks_convert<TO>(ks_convert<vi32>(x));                                                      \
  }
KS_CONVERT_BY_WAY_OF_I32(vf32, vi8) KS_CONVERT_BY_WAY_OF_I32(vf32, vi16)
KS_CONVERT_BY_WAY_OF_I32(vf32, vu8) KS_CONVERT_BY_WAY_OF_I32(vf32, vu16)
KS_CONVERT_BY_WAY_OF_I32(vi8, vf32) KS_CONVERT_BY_WAY_OF_I32(vi16, vf32)
KS_CONVERT_BY_WAY_OF_I32(vu8, vf32) KS_CONVERT_BY_WAY_OF_I32(vu16, vf32)

// ---- predicates ----

template <class M> KS_INLINE vi32 ks_mask(M m) { return ks_convert<vi32>(m); }
KS_INLINE vi32 ks_mask(vi32 m) { return m; }
KS_INLINE bool ks_mask(bool m) { return m; }
template <class T> KS_INLINE T ks_select(vi32 m, T a, T b) {
  return ks_convert<decltype(a < b)>(m) ? a : b;
}
KS_INLINE vf32 ks_select(vi32 m, vf32 a, vf32 b) { return m ? a : b; }
KS_INLINE vi32 ks_select(vi32 m, vi32 a, vi32 b) { return m ? a : b; }
template <class T> KS_INLINE T ks_select(bool m, T a, T b) { return m ? a : b; }
KS_INLINE vi32 ks_not(vi32 m) { return ~m; }
KS_INLINE bool ks_not(bool m) { return !m; }
KS_INLINE vi32 ks_first(i64 count) {
  i32 c = count < 0 ? 0 : count > KS_W ? KS_W : (i32)count;
  return ks_iota<vi32>() < ks_splat<vi32>(c);
}

// ---- 16-bit floats ----

KS_INLINE f32 ks_f32_of(u32 bits) { f32 r; __builtin_memcpy(&r, &bits, 4); return r; }
KS_INLINE u32 ks_bits_of(f32 x) { u32 r; __builtin_memcpy(&r, &x, 4); return r; }
KS_INLINE f64 ks_f64_of(u64 bits) { f64 r; __builtin_memcpy(&r, &bits, 8); return r; }
KS_INLINE u64 ks_bits_of(f64 x) { u64 r; __builtin_memcpy(&r, &x, 8); return r; }

KS_INLINE f32 ks_widen_bf16(u16 h) { return ks_f32_of((u32)h << 16); }
KS_INLINE vf32 ks_widen_bf16(vu16 h) { return (vf32)(ks_convert<vu32>(h) << 16); }
KS_INLINE u16 ks_narrow_bf16(f32 x) {
  u32 b = ks_bits_of(x);
  return x != x ? (u16)((b >> 16) | 0x40) : (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}
// A value of type bf16 has been rounded already.
KS_INLINE u16 ks_upper_half(f32 x) { return (u16)(ks_bits_of(x) >> 16); }
KS_INLINE vu16 ks_upper_half(vf32 x) { return ks_convert<vu16>((vu32)x >> 16); }
KS_INLINE vu16 ks_narrow_bf16(vf32 x) {
  vu32 b = (vu32)x;
  vu32 rounded = (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  vu32 nan = (b >> 16) | 0x40;
  return ks_convert<vu16>((x != x) ? nan : rounded);
}

// IEEE binary16 by integer arithmetic, for levels without the conversion instructions.
KS_INLINE f32 ks_widen_f16_soft(u16 h) {
  u32 sign = (u32)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
  if (e == 31) return ks_f32_of(sign | 0x7f800000 | (m ? (m << 13) | 0x400000 : 0));
  if (e) return ks_f32_of(sign | ((e + 112) << 23) | (m << 13));
  f32 tiny = (f32)m * 0x1p-24f;
  return ks_f32_of(sign | ks_bits_of(tiny));
}
KS_INLINE u16 ks_narrow_f16_soft(f32 x) {
  u32 b = ks_bits_of(x), sign = (b >> 16) & 0x8000, a = b & 0x7fffffff;
  if (a > 0x7f800000) return (u16)(sign | 0x7e00 | ((a >> 13) & 0x1ff));
  if (a >= 0x477ff000) return (u16)(sign | 0x7c00);
  if (a < 0x38800000) return (u16)(sign | (ks_bits_of(ks_f32_of(a) + 0.5f) - 0x3f000000));
  return (u16)(sign | ((a - 0x38000000 + 0xfff + ((a >> 13) & 1)) >> 13));
}
#if defined(KS_AVX512)
KS_INLINE vf32 ks_widen_f16(vu16 h) { vf32 r; __asm__("vcvtph2ps %1, %0" : "=v"(r) : "v"(h)); return r; }
KS_INLINE vu16 ks_narrow_f16(vf32 x) { vu16 r; __asm__("vcvtps2ph $0, %1, %0" : "=v"(r) : "v"(x)); return r; }
#elif defined(KS_F16C)
KS_INLINE vf32 ks_widen_f16(vu16 h) { vf32 r; __asm__("vcvtph2ps %1, %0" : "=x"(r) : "x"(h)); return r; }
KS_INLINE vu16 ks_narrow_f16(vf32 x) { vu16 r; __asm__("vcvtps2ph $0, %1, %0" : "=x"(r) : "x"(x)); return r; }
#else
KS_INLINE vf32 ks_widen_f16(vu16 h) { vf32 r; KS_EACH_LANE r[l] = ks_widen_f16_soft(h[l]); return r; }
KS_INLINE vu16 ks_narrow_f16(vf32 x) { vu16 r; KS_EACH_LANE r[l] = ks_narrow_f16_soft(x[l]); return r; }
#endif
KS_INLINE f32 ks_widen_f16(u16 h) { return ks_widen_f16_soft(h); }
KS_INLINE u16 ks_narrow_f16(f32 x) { return ks_narrow_f16_soft(x); }

template <class T> KS_INLINE T ks_round_f16(T x) { return ks_widen_f16(ks_narrow_f16(x)); }
KS_INLINE f32 ks_round_bf16(f32 x) { return ks_widen_bf16(ks_narrow_bf16(x)); }
KS_INLINE vf32 ks_round_bf16(vf32 x) {
  vu32 b = (vu32)x;
  return (vf32)(((x != x) ? b | 0x400000 : b + 0x7fff + ((b >> 16) & 1)) & 0xffff0000u);
}

// float64 to float32 with the lost part kept in the last bit, so that a second rounding to 16 bits is exact
KS_INLINE f32 ks_to_odd(f64 x) {
  f32 r = (f32)x;
  u32 b = ks_bits_of(r);
  if (x == x && (f64)r != x && !(b & 1)) b += ((f64)r > x) == (x > 0) ? -1 : 1;
  return ks_f32_of(b);
}
KS_INLINE vf32 ks_to_odd(vf64 x) { vf32 r; KS_EACH_LANE r[l] = ks_to_odd(x[l]); return r; }
