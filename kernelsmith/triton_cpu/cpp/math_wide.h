// Vector functions on float32 that compute in float64, half a vector at a time: the result is the exact one rounded,
// but for rare ties. ksm_f64 holds KSM_LANES / 2 doubles. Split at the "//@" lines like math_f32.h, and fitted alike.

//@ ksm_f64 ksm_i64 ksm_half
typedef double ksm_f64 __attribute__((vector_size(4 * KSM_LANES)));
typedef long ksm_i64 __attribute__((vector_size(4 * KSM_LANES)));
typedef float ksm_half __attribute__((vector_size(2 * KSM_LANES)));


//@ ksm_widen
static inline ksm_f64 ksm_widen(vf32 x, int half) {
    union { vf32 whole; ksm_half part[2]; } u = {x};
    return __builtin_convertvector(u.part[half], ksm_f64);
}

//@ ksm_narrow
static inline vf32 ksm_narrow(ksm_f64 low, ksm_f64 high) {
    union { ksm_half part[2]; vf32 whole; } u;
    u.part[0] = __builtin_convertvector(low, ksm_half);
    u.part[1] = __builtin_convertvector(high, ksm_half);
    return u.whole;
}

//@ KSM_LIFT1 KSM_LIFT2
#define KSM_LIFT1(name, core)                                              \
    static __attribute__((noinline)) vf32 name(vf32 x) {                   \
        ksm_f64 low = core(ksm_widen(x, 0));                               \
        return ksm_narrow(low, core(ksm_widen(x, 1)));                     \
    }
#define KSM_LIFT2(name, core)                                              \
    static __attribute__((noinline)) vf32 name(vf32 x, vf32 y) {           \
        ksm_f64 low = core(ksm_widen(x, 0), ksm_widen(y, 0));              \
        return ksm_narrow(low, core(ksm_widen(x, 1), ksm_widen(y, 1)));    \
    }

//@ ksm_wide_set
static inline ksm_f64 ksm_wide_set(double x) { return x - ksm_f64{}; }

//@ ksm_wide_abs
static inline ksm_f64 ksm_wide_abs(ksm_f64 x) { return (ksm_f64)((ksm_i64)x & 0x7fffffffffffffffl); }

//@ ksm_wide_copysign
static inline ksm_f64 ksm_wide_copysign(ksm_f64 x, ksm_f64 sign) {
    return (ksm_f64)(((ksm_i64)x & 0x7fffffffffffffffl) | ((ksm_i64)sign & (ksm_i64)ksm_wide_set(-0.0)));
}

//@ ksm_wide_fma
static inline ksm_f64 ksm_wide_fma(ksm_f64 a, ksm_f64 b, ksm_f64 c) {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif !defined(__clang__) && KSM_LANES == 16 && defined(__AVX512F__)
    return (ksm_f64)__builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#elif !defined(__clang__) && KSM_LANES == 8 && defined(__FMA__)
    return (ksm_f64)__builtin_ia32_vfmaddpd256(a, b, c);
#elif !defined(__clang__) && KSM_LANES == 4 && defined(__FMA__)
    return (ksm_f64)__builtin_ia32_vfmaddpd(a, b, c);
#else
    ksm_f64 r;
    for (int i = 0; i < KSM_LANES / 2; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
#endif
}

//@ ksm_wide_sqrt
static inline ksm_f64 ksm_wide_sqrt(ksm_f64 x) {
    ksm_f64 r;
    for (int i = 0; i < KSM_LANES / 2; i++) r[i] = __builtin_sqrt(x[i]);
    return r;
}

//@ ksm_wide_rint
// for |x| < 2^51
static inline ksm_f64 ksm_wide_rint(ksm_f64 x) {
    ksm_f64 shifted = x + 6755399441055744.0;
    return shifted - 6755399441055744.0;
}

//@ ksm_wide_exp2
// 2^t for |t| <= 1000, else the value at the nearer end
static inline ksm_f64 ksm_wide_exp2(ksm_f64 t) {
    t = t > 1000.0 ? ksm_wide_set(1000.0) : t;
    t = t < -1000.0 ? ksm_wide_set(-1000.0) : t;
    ksm_f64 shifted = t + 6755399441055744.0;  // its low bits hold the nearest whole number
    ksm_f64 r = t - (shifted - 6755399441055744.0);
    ksm_f64 p = ksm_wide_set(1.0148334771037291e-07);
    p = ksm_wide_fma(p, r, ksm_wide_set(1.3258343998694628e-06));
    p = ksm_wide_fma(p, r, ksm_wide_set(1.5252990109898654e-05));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.00015403440848457337));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.001333355762518788));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.009618129181208494));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.055504108668418296));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.24022650695722667));
    p = ksm_wide_fma(p, r, ksm_wide_set(0.6931471805598851));
    return (ksm_f64)((ksm_i64)ksm_wide_fma(p, r, ksm_wide_set(1.0)) + ((ksm_i64)shifted << 52));
}

//@ ksm_wide_log2
// log2(x) for x = 0, positive normal x and infinity
static inline ksm_f64 ksm_wide_log2(ksm_f64 x) {
    typedef unsigned long ksm_u64 __attribute__((vector_size(4 * KSM_LANES)));
    ksm_i64 bits = (ksm_i64)x;
    ksm_i64 biased = (ksm_i64)((ksm_u64)(bits + (0x3ff0000000000000l - 0x3fe6a09e667f3bcdl)) >> 52);
    ksm_f64 k = (ksm_f64)(biased + 0x4338000000000000l) - (6755399441055744.0 + 1023.0);
    ksm_f64 m = (ksm_f64)(bits - ((biased - 1023) << 52));
    ksm_f64 z = (m - 1.0) / (m + 1.0), w = z * z;
    ksm_f64 p = ksm_wide_set(0.24291013308238776);
    p = ksm_wide_fma(p, w, ksm_wide_set(0.2614452996766572));
    p = ksm_wide_fma(p, w, ksm_wide_set(0.32061633068268475));
    p = ksm_wide_fma(p, w, ksm_wide_set(0.4121984034206501));
    p = ksm_wide_fma(p, w, ksm_wide_set(0.5770780172311807));
    p = ksm_wide_fma(p, w, ksm_wide_set(0.9617966939244041));
    p = ksm_wide_fma(p, w, ksm_wide_set(2.885390081777927));
    ksm_f64 y = ksm_wide_fma(p, z, k);
    y = x == 0.0 ? ksm_wide_set(-__builtin_inf()) : y;
    return x < __builtin_inf() ? y : x;
}

//@ ksm_wide_pow
static inline ksm_f64 ksm_wide_pow(ksm_f64 x, ksm_f64 y) {
    ksm_f64 a = ksm_wide_abs(x), b = ksm_wide_abs(y);
    ksm_f64 r = ksm_wide_exp2(y * ksm_wide_log2(a));
    ksm_i64 large = b >= 16777216.0;  // every such float is an even number
    ksm_f64 half = (large ? ksm_wide_set(0.0) : y) * 0.5;
    ksm_i64 odd = (ksm_wide_rint(half + half) == half + half) & (ksm_wide_rint(half) != half);
    ksm_i64 fraction = ~(ksm_wide_rint(half + half) == half + half);
    r = (x < 0.0) & fraction & (a < __builtin_inf()) ? ksm_wide_set(__builtin_nan("")) : r;
    r = (ksm_f64)((ksm_i64)r ^ (odd & (ksm_i64)x & (ksm_i64)ksm_wide_set(-0.0)));
    r = (a == 1.0) & (b == __builtin_inf()) ? ksm_wide_set(1.0) : r;
    return (x == 1.0) | (y == 0.0) ? ksm_wide_set(1.0) : r;
}

//@ ks_pow_f32
KSM_LIFT2(ks_pow_f32, ksm_wide_pow)

//@ ksm_wide_exp10
static inline ksm_f64 ksm_wide_exp10(ksm_f64 x) { return ksm_wide_exp2(x * 3.321928094887362); }

//@ ks_exp10_f32
KSM_LIFT1(ks_exp10_f32, ksm_wide_exp10)

//@ ksm_wide_sinh
static inline ksm_f64 ksm_wide_sinh(ksm_f64 x) {
    ksm_f64 e = ksm_wide_exp2(ksm_wide_abs(x) * 1.4426950408889634), z = x * x;
    ksm_f64 near = ksm_wide_fma(x * z, ksm_wide_fma(z, ksm_wide_set(1 / 120.0), ksm_wide_set(1 / 6.0)), x);
    return ksm_wide_abs(x) < 0.01 ? near : ksm_wide_copysign((e - 1.0 / e) * 0.5, x);
}

//@ ks_sinh_f32
KSM_LIFT1(ks_sinh_f32, ksm_wide_sinh)

//@ ksm_wide_cosh
static inline ksm_f64 ksm_wide_cosh(ksm_f64 x) {
    ksm_f64 e = ksm_wide_exp2(ksm_wide_abs(x) * 1.4426950408889634);
    return (e + 1.0 / e) * 0.5;
}

//@ ks_cosh_f32
KSM_LIFT1(ks_cosh_f32, ksm_wide_cosh)

//@ ksm_wide_asinh
static inline ksm_f64 ksm_wide_asinh(ksm_f64 x) {
    ksm_f64 a = ksm_wide_abs(x), z = x * x;
    ksm_f64 near = ksm_wide_fma(a * z, ksm_wide_fma(z, ksm_wide_set(3 / 40.0), ksm_wide_set(-1 / 6.0)), a);
    ksm_f64 far = ksm_wide_log2(a + ksm_wide_sqrt(z + 1.0)) * 0.6931471805599453;
    return ksm_wide_copysign(a < 0.01 ? near : far, x);
}

//@ ks_asinh_f32
KSM_LIFT1(ks_asinh_f32, ksm_wide_asinh)

//@ ksm_wide_acosh
static inline ksm_f64 ksm_wide_acosh(ksm_f64 x) {
    ksm_f64 y = ksm_wide_log2(x + ksm_wide_sqrt(x * x - 1.0)) * 0.6931471805599453;
    return x >= 1.0 ? y : ksm_wide_set(__builtin_nan(""));
}

//@ ks_acosh_f32
KSM_LIFT1(ks_acosh_f32, ksm_wide_acosh)

//@ ksm_wide_atanh
static inline ksm_f64 ksm_wide_atanh(ksm_f64 x) {
    ksm_f64 a = ksm_wide_abs(x), z = x * x;
    ksm_f64 near = ksm_wide_fma(x * z, ksm_wide_fma(z, ksm_wide_set(1 / 5.0), ksm_wide_set(1 / 3.0)), x);
    ksm_f64 far = ksm_wide_log2((1.0 + a) / (1.0 - a)) * 0.34657359027997264;
    far = a > 1.0 ? ksm_wide_set(__builtin_nan("")) : far;
    return a < 0.01 ? near : ksm_wide_copysign(far, x);
}

//@ ks_atanh_f32
KSM_LIFT1(ks_atanh_f32, ksm_wide_atanh)

//@ ksm_wide_asin_near
// asin(x) for |x| <= 1/2
static inline ksm_f64 ksm_wide_asin_near(ksm_f64 x) {
    ksm_f64 z = x * x;
    ksm_f64 p = ksm_wide_set(0.03197535290120406);
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.0028753020959594805));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.018637908474408143));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.016475956292848072));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.02247155285332624));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.030375213504491124));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.044643113326100374));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.07499999523806027));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.16666666669708488));
    return ksm_wide_fma(p * z, x, x);
}

//@ ksm_wide_asin
static inline ksm_f64 ksm_wide_asin(ksm_f64 x) {
    ksm_f64 a = ksm_wide_abs(x);
    ksm_f64 far = 1.5707963267948966 - 2.0 * ksm_wide_asin_near(ksm_wide_sqrt((1.0 - a) * 0.5));
    return a <= 0.5 ? ksm_wide_asin_near(x) : ksm_wide_copysign(far, x);
}

//@ ks_asin_f32
KSM_LIFT1(ks_asin_f32, ksm_wide_asin)

//@ ksm_wide_acos
static inline ksm_f64 ksm_wide_acos(ksm_f64 x) {
    ksm_f64 a = ksm_wide_abs(x);
    ksm_f64 far = 2.0 * ksm_wide_asin_near(ksm_wide_sqrt((1.0 - a) * 0.5));
    far = x < 0.0 ? 3.141592653589793 - far : far;
    return a <= 0.5 ? 1.5707963267948966 - ksm_wide_asin_near(x) : far;
}

//@ ks_acos_f32
KSM_LIFT1(ks_acos_f32, ksm_wide_acos)

//@ ksm_wide_atan_ratio
// atan(y / x) for y, x >= 0, by the ratio that lies within tan(pi/8)
static inline ksm_f64 ksm_wide_atan_ratio(ksm_f64 y, ksm_f64 x) {
    const double bend = 0.41421356237309503;
    ksm_i64 low = y <= bend * x, high = y * bend >= x;
    ksm_f64 top = low ? y : high ? -x : y - x;
    ksm_f64 bottom = low ? x : high ? y : y + x;
    ksm_f64 base = low ? ksm_wide_set(0.0) : high ? ksm_wide_set(1.5707963267948966) : ksm_wide_set(0.7853981633974483);
    ksm_f64 t = top / bottom, z = t * t;
    ksm_f64 p = ksm_wide_set(0.03089128580645963);
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.058908384943606805));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.07568482918097452));
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.0907912996012774));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.11110449424126105));
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.14285693574362807));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.19999999685228662));
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.333333333316948));
    return base + ksm_wide_fma(p * z, t, t);
}

//@ ksm_wide_atan
static inline ksm_f64 ksm_wide_atan(ksm_f64 x) {
    ksm_f64 y = ksm_wide_atan_ratio(ksm_wide_abs(x), ksm_wide_set(1.0));
    y = ksm_wide_abs(x) == __builtin_inf() ? ksm_wide_set(1.5707963267948966) : y;
    return ksm_wide_copysign(y, x);
}

//@ ks_atan_f32
KSM_LIFT1(ks_atan_f32, ksm_wide_atan)

//@ ksm_wide_atan2
static inline ksm_f64 ksm_wide_atan2(ksm_f64 y, ksm_f64 x) {
    ksm_f64 a = ksm_wide_abs(y), b = ksm_wide_abs(x);
    ksm_i64 both = (a == __builtin_inf()) & (b == __builtin_inf());
    ksm_f64 big = ksm_wide_set(1e300);  // stands for one infinity; no float32 is near it
    ksm_f64 top = both ? ksm_wide_set(1.0) : a > big ? big : a;
    ksm_f64 bottom = both ? ksm_wide_set(1.0) : b > big ? big : b;
    ksm_f64 r = ksm_wide_atan_ratio(top, bottom);
    r = a == 0.0 ? ksm_wide_set(0.0) : r;
    r = (ksm_i64)x < 0 ? 3.141592653589793 - r : r;
    r = (x != x) | (y != y) ? ksm_wide_set(__builtin_nan("")) : r;
    return ksm_wide_copysign(r, y);
}

//@ ks_atan2_f32
KSM_LIFT2(ks_atan2_f32, ksm_wide_atan2)

//@ ksm_wide_cbrt
static inline ksm_f64 ksm_wide_cbrt(ksm_f64 x) {
    return ksm_wide_copysign(ksm_wide_exp2(ksm_wide_log2(ksm_wide_abs(x)) * (1 / 3.0)), x);
}

//@ ks_cbrt_f32
KSM_LIFT1(ks_cbrt_f32, ksm_wide_cbrt)

//@ ksm_wide_hypot
static inline ksm_f64 ksm_wide_hypot(ksm_f64 x, ksm_f64 y) {
    ksm_f64 r = ksm_wide_sqrt(x * x + y * y);
    ksm_i64 infinite = (ksm_wide_abs(x) == __builtin_inf()) | (ksm_wide_abs(y) == __builtin_inf());
    return infinite ? ksm_wide_set(__builtin_inf()) : r;
}

//@ ks_hypot_f32
KSM_LIFT2(ks_hypot_f32, ksm_wide_hypot)

//@ ksm_wide_tan_near
// tan(r) for r in [-pi/4, pi/4]
static inline ksm_f64 ksm_wide_tan_near(ksm_f64 r) {
    ksm_f64 z = r * r;
    ksm_f64 p = ksm_wide_set(0.0009602773299679328);
    p = ksm_wide_fma(p, z, ksm_wide_set(-0.0005979999738823976));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.0024189891213057947));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.0031420259592034646));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.008990008217165533));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.021848187064681078));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.05397026397383291));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.13333324075029573));
    p = ksm_wide_fma(p, z, ksm_wide_set(0.33333333479843963));
    return ksm_wide_fma(p * z, r, r);
}

//@ ksm_wide_sine
// sin(pi/2 * (r + quarters)) for |r| <= 1/2 and whole quarters
static inline ksm_f64 ksm_wide_sine(ksm_f64 r, ksm_f64 quarters) {
    r = r * 1.5707963267948966;
    ksm_f64 z = r * r;
    ksm_f64 s = ksm_wide_set(-2.4761407084165e-08);
    s = ksm_wide_fma(s, z, ksm_wide_set(2.7555354453136002e-06));
    s = ksm_wide_fma(s, z, ksm_wide_set(-0.0001984126380785959));
    s = ksm_wide_fma(s, z, ksm_wide_set(0.008333333325245008));
    s = ksm_wide_fma(s, z, ksm_wide_set(-0.1666666666663145));
    s = ksm_wide_fma(s * z, r, r);
    ksm_f64 c = ksm_wide_set(2.063333689004327e-09);
    c = ksm_wide_fma(c, z, ksm_wide_set(-2.75552921308811e-07));
    c = ksm_wide_fma(c, z, ksm_wide_set(2.4801578990262817e-05));
    c = ksm_wide_fma(c, z, ksm_wide_set(-0.0013888888871654243));
    c = ksm_wide_fma(c, z, ksm_wide_set(0.04166666666650233));
    c = ksm_wide_fma(c, z, ksm_wide_set(-0.4999999999999948));
    c = ksm_wide_fma(c, z, ksm_wide_set(1.0));
    ksm_i64 turn = (ksm_i64)(quarters + 6755399441055744.0);
    ksm_f64 y = (turn & 1) == 0 ? s : c;
    return (ksm_f64)((ksm_i64)y ^ (turn & 2) << 62);
}

//@ ksm_wide_sinpi
static inline ksm_f64 ksm_wide_sinpi(ksm_f64 x) {
    ksm_f64 twice = ksm_wide_abs(x) >= 16777216.0 ? x * 0.0 : x + x;  // large floats are even
    ksm_f64 quarters = ksm_wide_rint(twice), y = ksm_wide_sine(twice - quarters, quarters);
    return y == 0.0 ? ksm_wide_copysign(y, x) : y;
}

//@ ks_sinpi_f32
KSM_LIFT1(ks_sinpi_f32, ksm_wide_sinpi)

//@ ksm_wide_cospi
static inline ksm_f64 ksm_wide_cospi(ksm_f64 x) {
    ksm_f64 twice = ksm_wide_abs(x) >= 16777216.0 ? x * 0.0 : x + x;
    ksm_f64 quarters = ksm_wide_rint(twice);
    return ksm_wide_sine(twice - quarters, quarters + 1.0) + 0.0;  // a zero is +0
}

//@ ks_cospi_f32
KSM_LIFT1(ks_cospi_f32, ksm_wide_cospi)

//@ ks_tan_f32
static __attribute__((noinline)) vf32 ks_tan_f32(vf32 x) {
    const double limit = 100000.0;
    ksm_f64 y[2];
    for (int half = 0; half < 2; half++) {
        ksm_f64 a = ksm_widen(x, half), k = ksm_wide_rint(a * 0.6366197723675814);
        ksm_f64 r = ksm_wide_fma(k, ksm_wide_set(-1.5707963267948966), a);
        r = ksm_wide_fma(k, ksm_wide_set(-6.123233995736766e-17), r);
        ksm_i64 quadrant = (ksm_i64)(k + 6755399441055744.0);
        for (int i = 0; i < KSM_LANES / 2; i++) {
            if (__builtin_fabs(a[i]) <= limit) continue;
            int q;
            r[i] = ksm_reduce_large((float)a[i], &q);
            quadrant[i] = q;
        }
        ksm_f64 t = ksm_wide_tan_near(r);
        y[half] = (quadrant & 1) == 0 ? t : -1.0 / t;
        y[half] = a == 0.0 ? a : y[half];
    }
    return ksm_narrow(y[0], y[1]);
}

//@ ks_fmod_f32
static __attribute__((noinline)) vf32 ks_fmod_f32(vf32 x, vf32 y) {
    ksm_f64 rest[2];
    for (int half = 0; half < 2; half++) {
        ksm_f64 a = ksm_wide_abs(ksm_widen(x, half)), b = ksm_wide_abs(ksm_widen(y, half)), ratio = a / b;
        ksm_f64 whole = ksm_wide_rint(ratio);
        whole = whole > ratio ? whole - 1.0 : whole;
        ksm_f64 r = ksm_wide_fma(-whole, b, a);  // exact; below zero where the ratio was rounded up to a whole number
        r = r < 0.0 ? r + b : r;
        for (int i = 0; i < KSM_LANES / 2; i++)
            if (!(ratio[i] < 1e15) || b[i] == __builtin_inf()) r[i] = ks_fmod_f64(a[i], b[i]);
        rest[half] = r;
    }
    return ks_copysign_f32(ksm_narrow(rest[0], rest[1]), x);
}
