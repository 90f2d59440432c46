// What every generated kernel starts with. KS_W (float32 lanes) and KS_SPLAT(s) ({s, s, ...}) are defined above this text,
// KS_AVX512 and KS_F16C where the level has them. No headers: they cost more to compile than most kernels.
//
// A tensor's elements travel KS_W at a time, whatever their size. Predicates are vi32 with 0 or -1 in each lane; fp16 and
// bf16 travel as float32 and are rounded after every operation. Scalars and vectors share function names.

#define KS_INLINE static inline __attribute__((always_inline))
#define KS_FAR_BYTES (12 << 20)  // about what one program's output may take of a shared cache and still be found there
#define KS_EACH_LANE _Pragma("GCC unroll 1") for (int l = 0; l < KS_W; ++l)

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
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

// ---- memory: contiguous, masked, gathered; one set per element type ----

#define KS_SAME(x) (x)
KS_INLINE vi32 ks_widen_i1(vu8 b) { return ks_convert<vi32>((vi8)(b != 0)); }
KS_INLINE bool ks_widen_i1(u8 b) { return b != 0; }
KS_INLINE vu8 ks_narrow_i1(vi32 m) { return (vu8)ks_convert<vi8>(m & 1); }
KS_INLINE u8 ks_narrow_i1(bool m) { return m; }

// A row of whole cache lines, of an output (total rows like it) that no cache holds until somebody reads it.
KS_INLINE bool ks_far(const char *p, i64 bytes, f64 total) {
  return bytes > 0 && (((u64)p | (u64)bytes) & 63) == 0 && (f64)bytes * total >= KS_FAR_BYTES;
}
#if defined(__x86_64__)
template <class V> KS_INLINE void ks_past_the_caches(char *p, V x) {
  constexpr int size = sizeof(V) < 4 * KS_W ? sizeof(V) : 4 * KS_W;
  typedef f32 part __attribute__((vector_size(size)));
  union { V whole; part parts[sizeof(V) / size]; } u = {x};
#pragma GCC unroll 2
  for (int n = 0; n < (int)(sizeof(V) / size); ++n) {
    part *q = (part *)(p + n * size);
    if constexpr (size < 16) *(V *)p = x;
#if defined(__AVX__)
    else __asm__("vmovntps %1, %0" : "=m"(*q) : "v"(u.parts[n]));
#else
    else __asm__("movntps %1, %0" : "=m"(*q) : "x"(u.parts[n]));
#endif
  }
}
// Streaming stores are seen by others after this.
KS_INLINE void ks_drain() { __asm__ volatile("sfence" ::: "memory"); }
#else
template <class V> KS_INLINE void ks_past_the_caches(char *p, V x) { __builtin_memcpy(p, &x, sizeof x); }
KS_INLINE void ks_drain() {}
#endif

#define KS_MEMORY(NAME, STORED, SCALAR, VECTOR, WIDEN, NARROW)                                              \
  KS_INLINE SCALAR ks_get_##NAME(const char *p) { return WIDEN(*(const a##STORED *)p); }                    \
  KS_INLINE void ks_put_##NAME(char *p, SCALAR x) { *(a##STORED *)p = NARROW(x); }                          \
  KS_INLINE VECTOR ks_load_##NAME(const char *p) { return WIDEN((v##STORED)*(const w##STORED *)p); }        \
  KS_INLINE void ks_store_##NAME(char *p, VECTOR x) { *(w##STORED *)p = NARROW(x); }                        \
  KS_INLINE void ks_stream_##NAME(char *p, VECTOR x, bool far) {                                            \
    v##STORED r = NARROW(x);                                                                                \
    if (far) ks_past_the_caches(p, r); else *(w##STORED *)p = r;                                            \
  }                                                                                                         \
  KS_INLINE VECTOR ks_strided_##NAME(const char *p, i64 s) {                                                \
    v##STORED r;                                                                                            \
    KS_EACH_LANE r[l] = ((const a##STORED *)p)[s * l];                                                          \
    return WIDEN(r);                                                                                        \
  }                                                                                                         \
  template <class O> KS_INLINE VECTOR ks_gather_##NAME(const char *p, O o) {                                \
    v##STORED r;                                                                                            \
    KS_EACH_LANE r[l] = ((const a##STORED *)p)[o[l]];                                                           \
    return WIDEN(r);                                                                                        \
  }                                                                                                         \
  template <class O> KS_INLINE VECTOR ks_gather_##NAME(const char *p, O o, vi32 m, VECTOR other) {          \
    v##STORED r = NARROW(other);                                                                            \
    KS_EACH_LANE if (m[l]) r[l] = ((const a##STORED *)p)[o[l]];                                                 \
    return WIDEN(r);                                                                                        \
  }                                                                                                         \
  template <class O> KS_INLINE void ks_scatter_##NAME(char *p, O o, VECTOR x) {                             \
    v##STORED r = NARROW(x);                                                                                \
    KS_EACH_LANE((a##STORED *)p)[o[l]] = r[l];                                                                  \
  }                                                                                                         \
  template <class O> KS_INLINE void ks_scatter_##NAME(char *p, O o, vi32 m, VECTOR x) {                     \
    v##STORED r = NARROW(x);                                                                                \
    KS_EACH_LANE if (m[l])((a##STORED *)p)[o[l]] = r[l];                                                        \
  }

#define KS_MASKED(NAME, STORED, VECTOR, WIDEN, NARROW)                                                      \
  KS_INLINE VECTOR ks_load_##NAME(const char *p, vi32 m, VECTOR other) {                                    \
    return ks_gather_##NAME(p, ks_iota<vi32>(), m, other);                                                  \
  }                                                                                                         \
  KS_INLINE void ks_store_##NAME(char *p, vi32 m, VECTOR x) { ks_scatter_##NAME(p, ks_iota<vi32>(), m, x); }

KS_MEMORY(i1, u8, bool, vi32, ks_widen_i1, ks_narrow_i1)
KS_MEMORY(i8, i8, i8, vi8, KS_SAME, KS_SAME)
KS_MEMORY(i16, i16, i16, vi16, KS_SAME, KS_SAME)
KS_MEMORY(i32, i32, i32, vi32, KS_SAME, KS_SAME)
KS_MEMORY(i64, i64, i64, vi64, KS_SAME, KS_SAME)
KS_MEMORY(f32, f32, f32, vf32, KS_SAME, KS_SAME)
KS_MEMORY(f64, f64, f64, vf64, KS_SAME, KS_SAME)
KS_MEMORY(f16, u16, f32, vf32, ks_widen_f16, ks_narrow_f16)
KS_MEMORY(bf16, u16, f32, vf32, ks_widen_bf16, ks_upper_half)
KS_MASKED(i1, u8, vi32, ks_widen_i1, ks_narrow_i1)
KS_MASKED(i8, i8, vi8, KS_SAME, KS_SAME)
KS_MASKED(i16, i16, vi16, KS_SAME, KS_SAME)
KS_MASKED(i64, i64, vi64, KS_SAME, KS_SAME)
KS_MASKED(f64, f64, vf64, KS_SAME, KS_SAME)
KS_MASKED(f16, u16, vf32, ks_widen_f16, ks_narrow_f16)
KS_MASKED(bf16, u16, vf32, ks_widen_bf16, ks_upper_half)
#if defined(KS_AVX512)
KS_INLINE vf32 ks_load_f32(const char *p, vi32 m, vf32 other) {
  u16 k;
  vf32 r = other;
  __asm__("vpmovd2m %1, %0" : "=Yk"(k) : "v"(m));
  __asm__("vmovups %2, %0%{%1%}" : "+v"(r) : "Yk"(k), "m"(*(const wf32 *)p));
  return r;
}
KS_INLINE void ks_store_f32(char *p, vi32 m, vf32 x) {
  u16 k;
  __asm__("vpmovd2m %1, %0" : "=Yk"(k) : "v"(m));
  __asm__("vmovups %2, %0%{%1%}" : "+m"(*(wf32 *)p) : "Yk"(k), "v"(x));
}
KS_INLINE vi32 ks_load_i32(const char *p, vi32 m, vi32 other) { return (vi32)ks_load_f32(p, m, (vf32)other); }
KS_INLINE void ks_store_i32(char *p, vi32 m, vi32 x) { ks_store_f32(p, m, (vf32)x); }
#else
KS_MASKED(i32, i32, vi32, KS_SAME, KS_SAME)
KS_MASKED(f32, f32, vf32, KS_SAME, KS_SAME)
#endif

KS_INLINE bool ks_apart(const char *a, i64 a_bytes, const char *b, i64 b_bytes) {
  return (u64)a + (u64)a_bytes <= (u64)b || (u64)b + (u64)b_bytes <= (u64)a;
}
KS_INLINE u64 ks_distance(const char *a, const char *b) { return a < b ? b - a : a - b; }
// Whether memory of so many bytes from a on overlaps that from b on, but is not the same.
KS_INLINE bool ks_near(const char *a, const char *b, u64 bytes) { return ks_distance(a, b) - 1 < bytes - 1; }

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

// ---- atomics ----

template <int ORDER, class Bits, class Next> KS_INLINE Bits ks_atomic(char *p, Next next) {
  Bits *q = (Bits *)p, old = __atomic_load_n(q, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(q, &old, (Bits)next(old), false, ORDER, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <int ORDER, int FAILURE, class Bits> KS_INLINE Bits ks_swap_if(char *p, Bits expected, Bits wanted) {
  __atomic_compare_exchange_n((Bits *)p, &expected, wanted, false, ORDER, FAILURE);
  return expected;
}

// KS_W neighbours at p become what `next` makes of them: 16 bytes at a time, or one by one where p is not aligned or some
// are masked off. Bits is the integer of an element's size.
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
template <class Bits, class Next> KS_INLINE void ks_update(char *p, vi32 mask, Next next) {
  alignas(64) Bits old[KS_W], now[KS_W];
  for (int l = 0; l < KS_W; ++l) {
    if (!mask[l]) continue;
    Bits *q = (Bits *)p + l;
    old[l] = __atomic_load_n(q, __ATOMIC_RELAXED);
    do next((const char *)old, (char *)now);
    while (!__atomic_compare_exchange_n(q, &old[l], now[l], false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
  }
}
template <class Bits, class Next> KS_INLINE void ks_update(char *p, Next next) {
  typedef __int128 part __attribute__((may_alias));
  if ((u64)p & 15) return ks_update<Bits>(p, ks_splat<vi32>(-1), next);
  alignas(64) char old[sizeof(Bits) * KS_W], now[sizeof(Bits) * KS_W];
  __builtin_memcpy(old, p, sizeof old);
  next((const char *)old, (char *)now);
  for (u64 n = 0; n < sizeof old; n += 16) {
    for (;;) {
      part expected = *(part *)(old + n), found = __sync_val_compare_and_swap((part *)(p + n), expected, *(part *)(now + n));
      if (found == expected) break;
      *(part *)(old + n) = found;
      next((const char *)old, (char *)now);
    }
  }
}
#endif

// The pool's: called now and then by a program instance that waits for another one.
extern "C" __attribute__((weak)) void kernelsmith_stalled();
KS_INLINE void ks_wait(u32 *rounds) {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
  if ((++*rounds & 255) == 0 && kernelsmith_stalled) kernelsmith_stalled();
}
KS_INLINE void ks_pause() {
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
  if (kernelsmith_stalled) kernelsmith_stalled();
}
extern "C" int clock_gettime(int, i64 *);
KS_INLINE u64 ks_now() {
  i64 t[2];
  clock_gettime(1, t);  // CLOCK_MONOTONIC
  return (u64)t[0] * 1000000000 + (u64)t[1];
}
template <int ORDER, class Bits> KS_INLINE bool ks_poll(const char *p, Bits wanted, u64 deadline) {
  for (u32 rounds = 0; __atomic_load_n((const Bits *)p, ORDER) != wanted; ks_wait(&rounds))
    if (deadline != ~0ul && ks_now() >= deadline) return false;
  return true;
}

// ---- messages ----

extern "C" int printf(const char *, ...);
extern "C" int fflush(void *);
extern "C" void *stdout;

// ---- transposition ----

// KS_W rows become KS_W columns by log2(KS_W) perfect shuffles; strides in bytes.
template <class V> KS_INLINE void ks_turn_block(const char *from, i64 from_stride, char *to, i64 to_stride) {
  decltype(V{} < V{}) low, high;
  for (int l = 0; l < KS_W; ++l) {
    low[l] = l / 2 + l % 2 * KS_W;
    high[l] = low[l] + KS_W / 2;
  }
  V t[KS_W];
#pragma GCC unroll 16
  for (int l = 0; l < KS_W; ++l) __builtin_memcpy(&t[l], from + l * from_stride, sizeof(V));
#pragma GCC unroll 4
  for (int round = 1; round < KS_W; round *= 2) {
    V u[KS_W];
#pragma GCC unroll 8
    for (int l = 0; l < KS_W / 2; ++l) {
      u[2 * l] = ks_shuffle(t[l], t[l + KS_W / 2], low);
      u[2 * l + 1] = ks_shuffle(t[l], t[l + KS_W / 2], high);
    }
#pragma GCC unroll 16
    for (int l = 0; l < KS_W; ++l) t[l] = u[l];
  }
#pragma GCC unroll 16
  for (int l = 0; l < KS_W; ++l) __builtin_memcpy(to + l * to_stride, &t[l], sizeof(V));
}

// b[C][R] = a[R][C] transposed; V: KS_W elements.
template <class V, int R, int C> static __attribute__((noinline)) void ks_transpose(const char *a, char *b) {
  constexpr i64 S = sizeof(V) / KS_W;
  for (int r = 0; r < R; r += KS_W)
    for (int c = 0; c < C; c += KS_W) ks_turn_block<V>(a + (r * C + c) * S, C * S, b + (c * R + r) * S, R * S);
}
