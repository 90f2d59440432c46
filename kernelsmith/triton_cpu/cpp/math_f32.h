// Vector functions on float32. mathlib.py splits this file at the "//@" lines and hands out the functions that a kernel
// uses, with those they call. vf32 and vi32 are the kernel's vectors of KSM_LANES floats and ints.
//
// Polynomials: weighted least squares on Chebyshev nodes with Lawson's reweighting, which tends to the minimax fit of
// the relative error; coefficients are rounded to float32 from the lowest order up, refitting the rest each time.
// Reductions: Cody and Waite (exp, log, moderate angles), Payne and Hanek (large angles).

//@ ksm_set
static inline vf32 ksm_set(float x) { return x - vf32{}; }

//@ ks_abs_f32
static inline vf32 ks_abs_f32(vf32 x) { return (vf32)((vi32)x & 0x7fffffff); }

//@ ks_copysign_f32
static inline vf32 ks_copysign_f32(vf32 x, vf32 sign) {
    return (vf32)(((vi32)x & 0x7fffffff) | ((vi32)sign & (vi32)ksm_set(-0.0f)));
}

//@ ks_fma_f32
static inline vf32 ks_fma_f32(vf32 a, vf32 b, vf32 c) {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#elif !defined(__clang__) && KSM_LANES == 8 && defined(__FMA__)
    return (vf32)__builtin_ia32_vfmaddps256(a, b, c);
#elif !defined(__clang__) && KSM_LANES == 4 && defined(__FMA__)
    return (vf32)__builtin_ia32_vfmaddps(a, b, c);
#else
    vf32 r;
    for (int i = 0; i < KSM_LANES; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
#endif
}

//@ ksm_at_most ksm_at_least
// The smaller and the larger of x and a limit; a NaN stays.
static inline vf32 ksm_at_most(vf32 x, float limit) {
#if !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_minps512_mask(ksm_set(limit), x, x, (unsigned short)-1, 4);
#else
    return x > limit ? ksm_set(limit) : x;
#endif
}
static inline vf32 ksm_at_least(vf32 x, float limit) {
#if !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_maxps512_mask(ksm_set(limit), x, x, (unsigned short)-1, 4);
#else
    return x < limit ? ksm_set(limit) : x;
#endif
}

//@ ksm_any
static inline bool ksm_any(vi32 mask) {
#if defined(__clang__) && __has_builtin(__builtin_reduce_or)
    return __builtin_reduce_or(mask) != 0;
#elif !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return __builtin_ia32_ptestmd512(mask, mask, (unsigned short)-1) != 0;
#else
    int all = 0;
    for (int i = 0; i < KSM_LANES; i++) all |= mask[i];
    return all != 0;
#endif
}

//@ ks_sqrt_f32
static inline vf32 ks_sqrt_f32(vf32 x) {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_sqrt)
    return __builtin_elementwise_sqrt(x);
#elif !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4);
#elif !defined(__clang__) && KSM_LANES == 8 && defined(__AVX__)
    return (vf32)__builtin_ia32_sqrtps256(x);
#else
    vf32 r;
    for (int i = 0; i < KSM_LANES; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
#endif
}

//@ ks_rsqrt_f32
static inline vf32 ks_rsqrt_f32(vf32 x) { return 1.0f / ks_sqrt_f32(x); }

//@ ks_rint_f32
static inline vf32 ks_rint_f32(vf32 x) {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_roundeven)
    return __builtin_elementwise_roundeven(x);
#elif !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_rndscaleps_mask(x, 8, x, (unsigned short)-1, 4);
#elif !defined(__clang__) && KSM_LANES == 8 && defined(__AVX__)
    return (vf32)__builtin_ia32_roundps256(x, 8);
#else
    // Adding 2^23 with the sign of x leaves no bits for a fraction.
    vf32 big = ks_copysign_f32(ksm_set(8388608.0f), x);
    vf32 r = ks_copysign_f32((x + big) - big, x);
    return ks_abs_f32(x) < 8388608.0f ? r : x;
#endif
}

//@ ks_trunc_f32
static inline vf32 ks_trunc_f32(vf32 x) {
    vf32 whole = __builtin_convertvector(__builtin_convertvector(x, vi32), vf32);
    return ks_abs_f32(x) < 8388608.0f ? ks_copysign_f32(whole, x) : x;
}

//@ ks_floor_f32
static inline vf32 ks_floor_f32(vf32 x) {
    vf32 near = ks_rint_f32(x);
    return ks_copysign_f32(near > x ? near - 1.0f : near, x);
}

//@ ks_ceil_f32
static inline vf32 ks_ceil_f32(vf32 x) {
    vf32 near = ks_rint_f32(x);
    return ks_copysign_f32(near < x ? near + 1.0f : near, x);
}

//@ ks_nearbyint_f32
static inline vf32 ks_nearbyint_f32(vf32 x) { return ks_rint_f32(x); }

//@ ks_roundeven_f32
static inline vf32 ks_roundeven_f32(vf32 x) { return ks_rint_f32(x); }

//@ ks_round_f32
static inline vf32 ks_round_f32(vf32 x) {  // halves away from zero
    vf32 whole = ks_trunc_f32(x);
    return ks_abs_f32(x - whole) >= 0.5f ? whole + ks_copysign_f32(ksm_set(1.0f), x) : whole;
}

//@ ks_fdim_f32
static inline vf32 ks_fdim_f32(vf32 x, vf32 y) { return x <= y ? ksm_set(0.0f) : x - y; }

//@ ksm_scale
// x * 2^k for whole k in [-252, 254], rounded once even where the result is denormal.
static inline vf32 ksm_scale(vf32 x, vf32 k) {
#if !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (vf32)__builtin_ia32_scalefps512_mask(x, k, x, (unsigned short)-1, 4);
#else
    vi32 whole = __builtin_convertvector(k, vi32), half = whole >> 1;
    return x * (vf32)((half + 127) << 23) * (vf32)((whole - half + 127) << 23);
#endif
}

//@ ks_exp_f32
static inline vf32 ks_exp_f32(vf32 x) {
    x = ksm_at_least(ksm_at_most(x, 89.0f), -105.0f);  // already infinity; already zero
    vf32 k = ks_rint_f32(x * 1.44269504f);
    vf32 r = ks_fma_f32(k, ksm_set(-0.693359375f), x);
    r = ks_fma_f32(k, ksm_set(2.12194440e-4f), r);
    vf32 q = ksm_set(0.00138207339f);
    q = ks_fma_f32(q, r, ksm_set(0.00836867746f));
    q = ks_fma_f32(q, r, ksm_set(0.0416682661f));
    q = ks_fma_f32(q, r, ksm_set(0.166665211f));
    q = ks_fma_f32(q, r, ksm_set(0.49999994f));
    return ksm_scale(ks_fma_f32(r * r, q, r) + 1.0f, k);
}

//@ ks_exp2_f32
static inline vf32 ks_exp2_f32(vf32 x) {
    x = ksm_at_least(ksm_at_most(x, 129.0f), -151.0f);
    vf32 k = ks_rint_f32(x), r = x - k;
    vf32 q = ksm_set(0.000153292887f);
    q = ks_fma_f32(q, r, ksm_set(0.00133909727f));
    q = ks_fma_f32(q, r, ksm_set(0.00961849932f));
    q = ks_fma_f32(q, r, ksm_set(0.0555035956f));
    q = ks_fma_f32(q, r, ksm_set(0.240226477f));
    q = ks_fma_f32(q, r, ksm_set(0.693147182f));
    return ksm_scale(ks_fma_f32(q, r, ksm_set(1.0f)), k);
}

//@ ks_expm1_f32
static inline vf32 ks_expm1_f32(vf32 x) {
    vf32 a = ksm_at_least(ksm_at_most(x, 89.0f), -20.0f);
    vf32 k = ks_rint_f32(a * 1.44269504f);
    vf32 exact = ks_fma_f32(k, ksm_set(-0.693359375f), a);
    vf32 r = ks_fma_f32(k, ksm_set(2.12194440e-4f), exact);
    vf32 lost = ks_fma_f32(k, ksm_set(2.12194440e-4f), exact - r);  // what rounding took from r
    vf32 q = ksm_set(0.000199442642f);
    q = ks_fma_f32(q, r, ksm_set(0.00139326742f));
    q = ks_fma_f32(q, r, ksm_set(0.00833320804f));
    q = ks_fma_f32(q, r, ksm_set(0.0416664891f));
    q = ks_fma_f32(q, r, ksm_set(0.166666672f));
    q = ks_fma_f32(q, r, ksm_set(0.5f));
    vf32 t = r + ks_fma_f32(r * r, q, lost);
    vf32 half = ksm_scale(ksm_set(0.5f), k);  // half of the result, so that nothing overflows too soon
    vf32 y = ks_fma_f32(half, t, half - 0.5f);
    return ks_abs_f32(x) < 2.98023224e-8f ? x : y + y;
}

//@ ksm_log_split
// x = 2^k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x; denormals too.
static inline vf32 ksm_log_split(vf32 x, vf32 *k) {
    vi32 tiny = x < 1.17549435e-38f;
    vi32 bits = (vi32)(tiny ? x * 8388608.0f : x);
    vi32 e = (bits - 0x3f3504f3) >> 23;
    *k = __builtin_convertvector(e + (tiny & -23), vf32);
    return (vf32)(bits - (e << 23)) - 1.0f;
}

//@ ksm_log_special
// y where x is positive and finite; else what every logarithm gives.
static inline vf32 ksm_log_special(vf32 x, vf32 y) {
    vf32 odd = x < 0.0f ? ksm_set(__builtin_nanf("")) : x;
    odd = x == 0.0f ? ksm_set(-__builtin_inff()) : odd;
    return (x > 0.0f) & (x < __builtin_inff()) ? y : odd;
}

//@ ksm_log_sum
// k * ln 2 + ln(1 + f)
static inline vf32 ksm_log_sum(vf32 f, vf32 k) {
    vf32 p = ksm_set(-0.0763639957f);
    p = ks_fma_f32(p, f, ksm_set(0.127621993f));
    p = ks_fma_f32(p, f, ksm_set(-0.131596133f));
    p = ks_fma_f32(p, f, ksm_set(0.142015815f));
    p = ks_fma_f32(p, f, ksm_set(-0.166234091f));
    p = ks_fma_f32(p, f, ksm_set(0.200012416f));
    p = ks_fma_f32(p, f, ksm_set(-0.250008196f));
    p = ks_fma_f32(p, f, ksm_set(0.333333313f));
    vf32 z = f * f;
    vf32 y = ks_fma_f32(z * f, p, k * -2.12194440e-4f);
    y = ks_fma_f32(z, ksm_set(-0.5f), y);
    return ks_fma_f32(k, ksm_set(0.693359375f), f + y);
}

//@ ks_log_f32
static inline vf32 ks_log_f32(vf32 x) {
    vf32 k, f = ksm_log_split(x, &k);
    return ksm_log_special(x, ksm_log_sum(f, k));
}

//@ ks_log2_f32
static inline vf32 ks_log2_f32(vf32 x) {
    vf32 k, f = ksm_log_split(x, &k);
    vf32 q = ksm_set(-0.110968612f);
    q = ks_fma_f32(q, f, ksm_set(0.187219754f));
    q = ks_fma_f32(q, f, ksm_set(-0.191191465f));
    q = ks_fma_f32(q, f, ksm_set(0.204448417f));
    q = ks_fma_f32(q, f, ksm_set(-0.239581183f));
    q = ks_fma_f32(q, f, ksm_set(0.288573772f));
    q = ks_fma_f32(q, f, ksm_set(-0.360698432f));
    q = ks_fma_f32(q, f, ksm_set(0.480898172f));
    q = ks_fma_f32(q, f, ksm_set(-0.721347332f));
    vf32 y = ks_fma_f32(f * f, q, f * 1.92596303e-08f);
    return ksm_log_special(x, ks_fma_f32(f, ksm_set(1.44269502f), y) + k);
}

//@ ks_log10_f32
static inline vf32 ks_log10_f32(vf32 x) {
    vf32 k, f = ksm_log_split(x, &k);
    vf32 q = ksm_set(-0.0332998857f);
    q = ks_fma_f32(q, f, ksm_set(0.0562423207f));
    q = ks_fma_f32(q, f, ksm_set(-0.0575361028f));
    q = ks_fma_f32(q, f, ksm_set(0.0615614802f));
    q = ks_fma_f32(q, f, ksm_set(-0.0721254945f));
    q = ks_fma_f32(q, f, ksm_set(0.0868687108f));
    q = ks_fma_f32(q, f, ksm_set(-0.108580843f));
    q = ks_fma_f32(q, f, ksm_set(0.144764781f));
    q = ks_fma_f32(q, f, ksm_set(-0.217147186f));
    vf32 y = ks_fma_f32(f * f, q, f * -1.010305e-08f);
    y = ks_fma_f32(k, ksm_set(4.60503907e-6f), y);  // log10(2), low part
    y = ks_fma_f32(f, ksm_set(0.434294492f), y);
    return ksm_log_special(x, ks_fma_f32(k, ksm_set(0.301025391f), y));
}

//@ ks_log1p_f32
static inline vf32 ks_log1p_f32(vf32 x) {
    vf32 u = x + 1.0f;
    vi32 e = ((vi32)u - 0x3f3504f3) >> 23;
    vf32 far = (vf32)((vi32)u - (e << 23)) - 1.0f;
    vf32 shrink = (vf32)((127 - e) << 23);  // 2^-k; scaling x itself keeps the bits that 1 + x lost
    vf32 f = x > 1e9f ? far : ks_fma_f32(x, shrink, shrink - 1.0f);
    vf32 y = ksm_log_special(u, ksm_log_sum(f, __builtin_convertvector(e, vf32)));
    return x == 0.0f ? x : y;
}

//@ ksm_reduce_large
// Payne and Hanek: |x| = m * 2^e; of 2/pi only the 96 bits matter that give m * 2^e * 2/pi modulo 4.
static double ksm_reduce_large(float x, int *quadrant) {
    static const unsigned two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                           0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    unsigned bits;
    __builtin_memcpy(&bits, &x, 4);
    int offset = (int)(bits >> 23 & 255) - 150 + 30;
    *quadrant = 0;
    if ((bits & 0x7f800000) == 0x7f800000) return __builtin_nan("");
    if (offset < 0) return x;
    unsigned long long m = (bits & 0x7fffff) | 0x800000, word[3];
    const unsigned *w = two_over_pi + (offset >> 5);
    for (int i = 0; i < 3; i++) {
        unsigned long long pair = (unsigned long long)w[i] << 32 | w[i + 1];
        word[i] = (pair << (offset & 31) & 0xffffffffffffffffull) >> 32;
    }
    unsigned long long low = m * word[2], mid = m * word[1] + (low >> 32), high = m * word[0] + (mid >> 32);
    unsigned long long turns = high << 32 | (mid & 0xffffffff);  // quarter turns, 62 bits after the point
    unsigned long long nearest = (turns + (1ull << 61)) >> 62;
    double r = (double)(long long)(turns - (nearest << 62)) * (1.5707963267948966 / 4611686018427387904.0);
    bool negative = bits >> 31;
    *quadrant = (int)(negative ? 0 - nearest : nearest);
    return negative ? -r : r;
}

//@ ksm_reduce_lanes
static __attribute__((noinline)) vf32 ksm_reduce_lanes(vf32 x, vf32 r, vi32 *quadrant, float limit) {
    for (int i = 0; i < KSM_LANES; i++) {
        if (__builtin_fabsf(x[i]) <= limit) continue;
        int q;
        r[i] = (float)ksm_reduce_large(x[i], &q);
        (*quadrant)[i] = q;
    }
    return r;
}

//@ ksm_reduce
// x = quadrant * pi/2 + r with r in [-pi/4, pi/4]; pi/2 in three parts, of which the first leaves an exact difference.
static inline vf32 ksm_reduce(vf32 x, vi32 *quadrant) {
    const float limit = 100000.0f;
    vf32 k = ks_rint_f32(x * 0.636619772f);
    vf32 r = ks_fma_f32(k, ksm_set(-1.57079601f), x);
    r = ks_fma_f32(k, ksm_set(-3.13916473e-7f), r);
    r = ks_fma_f32(k, ksm_set(-5.39030253e-15f), r);
    *quadrant = __builtin_convertvector(k, vi32);
    if (ksm_any(~(ks_abs_f32(x) <= limit))) r = ksm_reduce_lanes(x, r, quadrant, limit);
    return r;
}

//@ ksm_sincos
// sin(r + quadrant * pi/2)
static inline vf32 ksm_sincos(vf32 r, vi32 quadrant) {
    vf32 z = r * r;
    vf32 s = ksm_set(-0.000195180997f);
    s = ks_fma_f32(s, z, ksm_set(0.00833218824f));
    s = ks_fma_f32(s, z, ksm_set(-0.166666552f));
    s = ks_fma_f32(z * r, s, r);
    vf32 c = ksm_set(2.44325529e-05f);
    c = ks_fma_f32(c, z, ksm_set(-0.00138873106f));
    c = ks_fma_f32(c, z, ksm_set(0.0416666456f));
    c = ks_fma_f32(c, z, ksm_set(-0.5f));
    c = ks_fma_f32(c, z, ksm_set(1.0f));
    vf32 y = (quadrant & 1) == 0 ? s : c;
    return (vf32)((vi32)y ^ (quadrant & 2) << 30);
}

//@ ks_sin_f32
static inline vf32 ks_sin_f32(vf32 x) {
    vi32 quadrant;
    vf32 r = ksm_reduce(x, &quadrant);
    return x == 0.0f ? x : ksm_sincos(r, quadrant);
}

//@ ks_cos_f32
static inline vf32 ks_cos_f32(vf32 x) {
    vi32 quadrant;
    vf32 r = ksm_reduce(x, &quadrant);
    return ksm_sincos(r, quadrant + 1);
}

//@ ks_tanh_f32
static inline vf32 ks_tanh_f32(vf32 x) {
    vf32 a = ks_abs_f32(x), z = x * x;
    vf32 far = 1.0f - 2.0f / (ks_exp_f32(a + a) + 1.0f);
    vf32 t = ksm_set(-0.00589796668f);
    t = ks_fma_f32(t, z, ksm_set(0.0207986254f));
    t = ks_fma_f32(t, z, ksm_set(-0.0537847169f));
    t = ks_fma_f32(t, z, ksm_set(0.133319363f));
    t = ks_fma_f32(t, z, ksm_set(-0.333332986f));
    return ks_copysign_f32(a < 0.6f ? ks_fma_f32(t * z, a, a) : far, x);
}

//@ ks_erf_f32
static inline vf32 ks_erf_f32(vf32 x) {
    vf32 a = ks_abs_f32(x), z = x * x;
    vf32 p = ksm_set(8.00277485e-05f);
    p = ks_fma_f32(p, z, ksm_set(-0.000805080403f));
    p = ks_fma_f32(p, z, ksm_set(0.00519246049f));
    p = ks_fma_f32(p, z, ksm_set(-0.0268557407f));
    p = ks_fma_f32(p, z, ksm_set(0.112836257f));
    p = ks_fma_f32(p, z, ksm_set(-0.376126289f));
    p = ks_fma_f32(p, z, ksm_set(0.128379166f));
    vf32 near = ks_fma_f32(p, x, x);
    vf32 b = ksm_at_most(a, 3.95f);
    vf32 g = ksm_set(0.000198219292f);  // ln(1 - erf(b))
    g = ks_fma_f32(g, b, ksm_set(-0.00306548295f));
    g = ks_fma_f32(g, b, ksm_set(0.0223151781f));
    g = ks_fma_f32(g, b, ksm_set(-0.104113616f));
    g = ks_fma_f32(g, b, ksm_set(-0.636976123f));
    g = ks_fma_f32(g, b, ksm_set(-1.12779725f));
    g = ks_fma_f32(g, b, ksm_set(-0.000166439335f));
    vf32 far = ks_copysign_f32(1.0f - ks_exp_f32(g), x);
    return a < 0.95f ? near : far;
}

//@ ks_nextafter_f32
static __attribute__((noinline)) vf32 ks_nextafter_f32(vf32 x, vf32 y) {
    vf32 r;
    for (int i = 0; i < KSM_LANES; i++) r[i] = __builtin_nextafterf(x[i], y[i]);
    return r;
}
