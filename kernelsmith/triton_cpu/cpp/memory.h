// Loads and stores of KS_W elements or one, and what else moves elements about in memory.

#define KS_FAR_BYTES (12 << 20)  // about what one program's output may take of a shared cache and still be found there

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
