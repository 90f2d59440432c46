// Matrix products c[M][N] += a[M][K] * b[K][N]; part of every kernel that has one.
//
// Operands are read in units: one float32, float64 or int32, or as many bf16 (2) or int8 (4) that follow each other
// along K as fill 32 bits. A unit of a is broadcast to a vector, b comes in vectors of units along N, and R rows by NV
// vectors of c stay in registers while K runs. Element (m, k) of a is a_row * m + a_step * k bytes behind a, wherever
// that is; b comes in panels of NV vectors (see ks_interleave), or as it lies where few rows would not repay packing.

template <class T, int L> struct ks_many { typedef T type __attribute__((vector_size(sizeof(T) * L))); };
template <class T> struct ks_many<T, 1> { typedef T type; };
template <class V> KS_INLINE V ks_get(const void *p) { V r; __builtin_memcpy(&r, p, sizeof r); return r; }
template <class V> KS_INLINE void ks_put(void *p, V x) { __builtin_memcpy(p, &x, sizeof x); }

#define KS_INSTRUCTION(NAME) __asm__(NAME " %2, %1, %0" : "+v"(c) : "v"(a), "v"(b)); return c
struct ks_f32_step {
  typedef f32 total, unit;
  template <class V, class W> KS_INLINE V add(V c, W a, W b) {
#if defined(__FMA__)
    KS_INSTRUCTION("vfmadd231ps");
#else
    return a * b + c;
#endif
  }
};
struct ks_f64_step {
  typedef f64 total, unit;
  template <class V, class W> KS_INLINE V add(V c, W a, W b) {
#if defined(__FMA__)
    KS_INSTRUCTION("vfmadd231pd");
#else
    return a * b + c;
#endif
  }
};
struct ks_i32_step {
  typedef u32 total, unit;
  template <class V, class W> KS_INLINE V add(V c, W a, W b) { return a * b + c; }
};
#if defined(KS_BF16_DOT)
struct ks_bf16_step {
  typedef f32 total;
  typedef u32 unit;
  template <class V, class W> KS_INLINE V add(V c, W a, W b) { KS_INSTRUCTION("vdpbf16ps"); }
};
#endif
#if defined(KS_VNNI)
struct ks_i8_step {  // a's bytes are unsigned, b's signed
  typedef u32 total, unit;
  template <class V, class W> KS_INLINE V add(V c, W a, W b) { KS_INSTRUCTION("vpdpbusd"); }
};
#endif

// FRESH: c holds nothing yet and counts as zero. K counts units here.
template <class Step, int M, int N, int K, int R, int NV, int L, bool FRESH>
static __attribute__((noinline)) void ks_multiply(const char *a, i64 a_row, i64 a_step, const char *b, i64 b_panel,
                                                  i64 b_step, char *c) {
  typedef typename Step::total S;
  typedef typename Step::unit U;
  typedef typename ks_many<S, L>::type V;
  typedef typename ks_many<U, L>::type W;
  for (int n = 0; n < N; n += NV * L, b += b_panel)
    for (int m = 0; m < M; m += R) {
      V t[R][NV];
      char *home = c + ((i64)m * N + n) * (i64)sizeof(S);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) t[r][v] = FRESH ? V{} : ks_get<V>(home + ((i64)r * N + v * L) * (i64)sizeof(S));
      const char *x = a + m * a_row, *y = b;
#pragma GCC unroll 1
      for (int k = 0; k < K; ++k, x += a_step, y += b_step) {
        W row[NV];
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) row[v] = ks_get<W>(y + v * sizeof(W));
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          W all = ks_get<U>(x + r * a_row) - W{};
#pragma GCC unroll 8
          for (int v = 0; v < NV; ++v) t[r][v] = Step::add(t[r][v], all, row[v]);
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) ks_put(home + ((i64)r * N + v * L) * (i64)sizeof(S), t[r][v]);
    }
}

// ---- the smallest magnitude but zero ----

// Of the floats whose bits, as unsigned integers W, it has seen; kept doubled, which drops the sign, and less one.
template <class T, int L> struct ks_floor {
  typedef typename ks_many<T, L>::type W;
  W least = ~W{};
  inline __attribute__((always_inline)) void see(W bits) {
    bits = bits + bits - 1;
    least = bits < least ? bits : least;
  }
  // The biased exponent; above all others where there are only zeros.
  inline __attribute__((always_inline)) u32 exponent() {
    W other;
#pragma GCC unroll 8
    for (int n = L / 2; n; n /= 2) {
      for (int l = 0; l < L; ++l) other[l] = l ^ n;
      other = ks_shuffle(least, other);
      least = other < least ? other : least;
    }
    return ((u64)least[0] + 1) >> (8 * sizeof(T) - 8);
  }
};

template <class T, int ROWS, int BYTES> static __attribute__((noinline)) u32 ks_least(const char *rows, i64 stride) {
  constexpr int L = (BYTES < 4 * KS_W ? BYTES : 4 * KS_W) / sizeof(T);
  ks_floor<T, L> floor;
  for (int r = 0; r < ROWS; ++r, rows += stride)
#pragma GCC unroll 4
    for (int at = 0; at < BYTES; at += sizeof(T) * L) floor.see(ks_get<typename ks_many<T, L>::type>(rows + at));
  return floor.exponent();
}

// ---- packing: b[K][N] becomes panels [N / P][K in units][P] of units U ----

// L units of PER elements each from as many rows, which `floor` sees on the way if they are pairs.
template <class E, int PER, int L, class F> KS_INLINE void ks_zip(const char *rows, i64 stride, char *to, F &floor) {
  if constexpr (PER == 1) {
    typedef typename ks_many<E, L>::type W;
    ks_put(to, ks_get<W>(rows));
  } else if constexpr (PER == 2) {
    typedef typename ks_many<E, L>::type W;
    W low, high, a = ks_get<W>(rows), b = ks_get<W>(rows + stride);
    for (int l = 0; l < L; ++l) {
      low[l] = l / 2 + l % 2 * L;
      high[l] = low[l] + L / 2;
    }
    floor.see(a);
    floor.see(b);
    ks_put(to, ks_shuffle(a, b, low));
    ks_put(to + sizeof(W), ks_shuffle(a, b, high));
  } else {
    typedef typename ks_many<u32, L>::type W;
    W units = W{};
#pragma GCC unroll 4
    for (int j = 0; j < PER; ++j)
      units |= ks_convert<W>(ks_get<typename ks_many<E, L>::type>(rows + j * stride)) << (8 * (int)sizeof(E) * j);
    ks_put(to, units);
  }
}

// From rows of K, in which N runs contiguously; E is an element, PER of which make a unit.
template <class E, int PER, int K, int N, int P, int L>
static __attribute__((noinline)) u32 ks_interleave(const char *rows, i64 stride, char *panels) {
  constexpr int STEP = PER == 2 && P % (2 * L) == 0 ? 2 * L : L, UNIT = PER * sizeof(E);
  ks_floor<u16, PER == 2 ? STEP : 2> floor;
  for (int k = 0; k < K / PER; ++k, rows += PER * stride, panels += P * UNIT)
#pragma GCC unroll 8
    for (int n = 0; n < N; n += STEP)
      ks_zip<E, PER, STEP>(rows + n * sizeof(E), stride, panels + ((i64)(n / P) * (K / PER) * P + n % P) * UNIT, floor);
  return floor.exponent();
}

// From rows of N, in which K runs contiguously: a transposition of units, whole registers at a time where they fit.
template <class U, int K, int N, int P>
static __attribute__((noinline)) void ks_turn(const char *rows, i64 stride, char *panels) {
  if constexpr (sizeof(U) == 4 && K % KS_W == 0 && P % KS_W == 0) {
    for (int n = 0; n < N; n += KS_W)
      for (int k = 0; k < K; k += KS_W)
        ks_turn_block<vu32>(rows + n * stride + k * 4, stride, panels + (((i64)(n / P) * K + k) * P + n % P) * 4, P * 4);
  } else {
    for (int n = 0; n < N; ++n)
      for (int k = 0; k < K; ++k)
        ks_put(panels + (((i64)(n / P) * K + k) * P + n % P) * (i64)sizeof(U), ks_get<U>(rows + n * stride + k * (i64)sizeof(U)));
  }
}

#if defined(KS_BF16_DOT)
// ---- bf16: two products per lane and instruction, where that is exact ----
//
// vdpbf16ps is two fused multiply-adds to float32, one after the other, rounded to nearest, but it takes denormal operands
// and accumulators as zero and flushes denormal results (Intel 64 and IA-32 Architectures Software Developer's Manual,
// volume 2, VDPBF16PS; the order, odd element first, was confirmed on Zen 5). It equals fma where no denormal can appear:
// if each element of a is a multiple of 2^(i-7) and each of b of 2^(j-7), i and j the exponents of the smallest that are
// not zero, then with i + j >= -112 all products, and with the accumulators all sums, are multiples of 2^-126, which no
// denormal is, provided that c begins as such multiples. Tiles that do not pass this test are widened to float32 and multiplied there.

// `coarse` says that c is known to be zero or at least 2^-103 (a multiple of 2^-126) all over, and is kept up to date; `wide` has room for both operands in float32.
template <int M, int N, int K, int R, int NV, int L, bool FRESH>
static void ks_multiply_bf16(const char *a, i64 a_row, i64 a_step, u32 a_least, const char *b, u32 b_least, char *c,
                             char *wide, bool &coarse) {
  constexpr int P = NV * L;
  if (!FRESH && !coarse) coarse = ks_least<u32, 1, M * N * 4>(c, 0) >= 127 - 103;
  if (a_least && b_least && a_least + b_least >= 2 * 127 - 112 && (FRESH || coarse)) {
    ks_multiply<ks_bf16_step, M, N, K / 2, R, NV, L, FRESH>(a, a_row, a_step, b, K / 2 * P * 4, P * 4, c);
    return;
  }
  coarse = false;
  typedef typename ks_many<u32, L>::type W;
  char *left = wide, *right = wide + M * K * 4;
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K / 2; ++k) {
      const u32 pair = ks_get<u32>(a + m * a_row + k * a_step);
      ks_put(left + ((i64)m * K + 2 * k) * 4, pair << 16);
      ks_put(left + ((i64)m * K + 2 * k + 1) * 4, pair & 0xffff0000u);
    }
  for (int k = 0; k < K / 2 * N; k += P)
    for (int v = 0; v < P; v += L) {
      const W pairs = ks_get<W>(b + (k + v) * 4);
      ks_put(right + (2 * k + v) * 4, pairs << 16);
      ks_put(right + (2 * k + P + v) * 4, pairs & 0xffff0000u);
    }
  ks_multiply<ks_f32_step, M, N, K, R, NV, L, FRESH>(left, K * 4, 4, right, K * P * 4, P * 4, c);
}
#endif
#if defined(KS_VNNI)
// ---- int8: four products per lane and instruction, of unsigned by signed ----
//
// a + 128 is unsigned, and sum (a + 128) * b = sum a * b + 128 * sum b, all modulo 2^32. `wide` has room for a.
template <int M, int N, int K, int R, int NV, int L, bool FRESH>
static void ks_multiply_i8(const char *a, i64 a_row, i64 a_step, const char *b, char *c, char *wide) {
  constexpr int P = NV * L;
  typedef typename ks_many<u32, L>::type W;
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < K / 4; ++k)
      ks_put(wide + ((i64)m * K + 4 * k), ks_get<u32>(a + m * a_row + k * a_step) ^ 0x80808080u);
  ks_multiply<ks_i8_step, M, N, K / 4, R, NV, L, FRESH>(wide, K, 4, b, K / 4 * P * 4, P * 4, c);
  const W ones = 0x01010101u - W{};
  for (int n = 0; n < N; n += L) {
    W sum = W{};
    for (int k = 0; k < K / 4; ++k)
      sum = ks_i8_step::add(sum, ones, ks_get<W>(b + (((i64)(n / P) * (K / 4) + k) * P + n % P) * 4));
    sum *= 128;
    for (int m = 0; m < M; ++m) {
      char *home = c + ((i64)m * N + n) * 4;
      ks_put(home, ks_get<W>(home) - sum);
    }
  }
}
#endif
