// Vector functions on float32 that compute in float64, half a vector at a time: the result is the exact one rounded,
// but for rare ties. vf64 holds KS_LANES / 2 doubles. Split at the "//@" lines like math_f32.h, and fitted alike.

//@ vf64 vi64 vf32_half
typedef double vf64 __attribute__((vector_size(4 * KS_LANES)));
typedef long vi64 __attribute__((vector_size(4 * KS_LANES)));
typedef float vf32_half __attribute__((vector_size(2 * KS_LANES)));


//@ ks_widen
static inline vf64 ks_widen(vf32 x, int half) {
    union { vf32 whole; vf32_half part[2]; } u = {x};
    return __builtin_convertvector(u.part[half], vf64);
}

//@ ks_narrow
static inline vf32 ks_narrow(vf64 low, vf64 high) {
    union { vf32_half part[2]; vf32 whole; } u;
    u.part[0] = __builtin_convertvector(low, vf32_half);
    u.part[1] = __builtin_convertvector(high, vf32_half);
    return u.whole;
}

//@ KS_LIFT1 KS_LIFT2
#define KS_LIFT1(name, core)  \
    static __attribute__((noinline)) vf32 name(vf32 x) { return ks_narrow(core(ks_widen(x, 0)), core(ks_widen(x, 1))); }
#define KS_LIFT2(name, core)                                     \
    static __attribute__((noinline)) vf32 name(vf32 x, vf32 y) {            \
        vf64 low = core(ks_widen(x, 0), ks_widen(y, 0));                    \
        return ks_narrow(low, core(ks_widen(x, 1), ks_widen(y, 1)));        \
    }

//@ ks_wide_set
static inline vf64 ks_wide_set(double x) { return x - vf64{}; }

//@ ks_wide_abs
static inline vf64 ks_wide_abs(vf64 x) { return (vf64)((vi64)x & 0x7fffffffffffffffl); }

//@ ks_wide_copysign
static inline vf64 ks_wide_copysign(vf64 x, vf64 sign) {
    return (vf64)(((vi64)x & 0x7fffffffffffffffl) | ((vi64)sign & (vi64)ks_wide_set(-0.0)));
}

//@ ks_wide_fma
static inline vf64 ks_wide_fma(vf64 a, vf64 b, vf64 c) {
#if defined(__clang__) && __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif !defined(__clang__) && KS_LANES == 16 && defined(__AVX512F__)
    return (vf64)__builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#elif !defined(__clang__) && KS_LANES == 8 && defined(__FMA__)
    return (vf64)__builtin_ia32_vfmaddpd256(a, b, c);
#elif !defined(__clang__) && KS_LANES == 4 && defined(__FMA__)
    return (vf64)__builtin_ia32_vfmaddpd(a, b, c);
#else
    vf64 r;
    for (int i = 0; i < KS_LANES / 2; i++) r[i] = __builtin_fma(a[i], b[i], c[i]);
    return r;
#endif
}

//@ ks_wide_sqrt
static inline vf64 ks_wide_sqrt(vf64 x) {
    vf64 r;
    for (int i = 0; i < KS_LANES / 2; i++) r[i] = __builtin_sqrt(x[i]);
    return r;
}

//@ ks_wide_rint
// for |x| < 2^51
static inline vf64 ks_wide_rint(vf64 x) {
    vf64 shifted = x + 6755399441055744.0;
    return shifted - 6755399441055744.0;
}

//@ ks_wide_exp2
// 2^t for |t| <= 1000, else the value at the nearer end
static inline vf64 ks_wide_exp2(vf64 t) {
    t = t > 1000.0 ? ks_wide_set(1000.0) : t;
    t = t < -1000.0 ? ks_wide_set(-1000.0) : t;
    vf64 shifted = t + 6755399441055744.0;  // its low bits hold the nearest whole number
    vf64 r = t - (shifted - 6755399441055744.0);
    vf64 p = ks_wide_set(1.0148334771037291e-07);
    p = ks_wide_fma(p, r, ks_wide_set(1.3258343998694628e-06));
    p = ks_wide_fma(p, r, ks_wide_set(1.5252990109898654e-05));
    p = ks_wide_fma(p, r, ks_wide_set(0.00015403440848457337));
    p = ks_wide_fma(p, r, ks_wide_set(0.001333355762518788));
    p = ks_wide_fma(p, r, ks_wide_set(0.009618129181208494));
    p = ks_wide_fma(p, r, ks_wide_set(0.055504108668418296));
    p = ks_wide_fma(p, r, ks_wide_set(0.24022650695722667));
    p = ks_wide_fma(p, r, ks_wide_set(0.6931471805598851));
    return (vf64)((vi64)ks_wide_fma(p, r, ks_wide_set(1.0)) + ((vi64)shifted << 52));
}

//@ ks_wide_log2
// log2(x) for x = 0, positive normal x and infinity
static inline vf64 ks_wide_log2(vf64 x) {
    typedef unsigned long vu64 __attribute__((vector_size(4 * KS_LANES)));
    vi64 bits = (vi64)x;
    vi64 biased = (vi64)((vu64)(bits + (0x3ff0000000000000l - 0x3fe6a09e667f3bcdl)) >> 52);
    vf64 k = (vf64)(biased + 0x4338000000000000l) - (6755399441055744.0 + 1023.0);
    vf64 m = (vf64)(bits - ((biased - 1023) << 52));
    vf64 z = (m - 1.0) / (m + 1.0), w = z * z;
    vf64 p = ks_wide_set(0.24291013308238776);
    p = ks_wide_fma(p, w, ks_wide_set(0.2614452996766572));
    p = ks_wide_fma(p, w, ks_wide_set(0.32061633068268475));
    p = ks_wide_fma(p, w, ks_wide_set(0.4121984034206501));
    p = ks_wide_fma(p, w, ks_wide_set(0.5770780172311807));
    p = ks_wide_fma(p, w, ks_wide_set(0.9617966939244041));
    p = ks_wide_fma(p, w, ks_wide_set(2.885390081777927));
    vf64 y = ks_wide_fma(p, z, k);
    y = x == 0.0 ? ks_wide_set(-__builtin_inf()) : y;
    return x < __builtin_inf() ? y : x;
}

//@ ks_wide_pow
static inline vf64 ks_wide_pow(vf64 x, vf64 y) {
    vf64 a = ks_wide_abs(x), b = ks_wide_abs(y);
    vf64 r = ks_wide_exp2(y * ks_wide_log2(a));
    vi64 large = b >= 16777216.0;  // every such float is an even number
    vf64 half = (large ? ks_wide_set(0.0) : y) * 0.5;
    vi64 odd = (ks_wide_rint(half + half) == half + half) & (ks_wide_rint(half) != half);
    vi64 fraction = ~(ks_wide_rint(half + half) == half + half);
    r = (x < 0.0) & fraction & (a < __builtin_inf()) ? ks_wide_set(__builtin_nan("")) : r;
    r = (vf64)((vi64)r ^ (odd & (vi64)x & (vi64)ks_wide_set(-0.0)));
    r = (a == 1.0) & (b == __builtin_inf()) ? ks_wide_set(1.0) : r;
    return (x == 1.0) | (y == 0.0) ? ks_wide_set(1.0) : r;
}

//@ ks_pow_f32
KS_LIFT2(ks_pow_f32, ks_wide_pow)

//@ ks_wide_exp10
static inline vf64 ks_wide_exp10(vf64 x) { return ks_wide_exp2(x * 3.321928094887362); }

//@ ks_exp10_f32
KS_LIFT1(ks_exp10_f32, ks_wide_exp10)

//@ ks_wide_sinh
static inline vf64 ks_wide_sinh(vf64 x) {
    vf64 e = ks_wide_exp2(ks_wide_abs(x) * 1.4426950408889634), z = x * x;
    vf64 near = ks_wide_fma(x * z, ks_wide_fma(z, ks_wide_set(1 / 120.0), ks_wide_set(1 / 6.0)), x);
    return ks_wide_abs(x) < 0.01 ? near : ks_wide_copysign((e - 1.0 / e) * 0.5, x);
}

//@ ks_sinh_f32
KS_LIFT1(ks_sinh_f32, ks_wide_sinh)

//@ ks_wide_cosh
static inline vf64 ks_wide_cosh(vf64 x) {
    vf64 e = ks_wide_exp2(ks_wide_abs(x) * 1.4426950408889634);
    return (e + 1.0 / e) * 0.5;
}

//@ ks_cosh_f32
KS_LIFT1(ks_cosh_f32, ks_wide_cosh)

//@ ks_wide_asinh
static inline vf64 ks_wide_asinh(vf64 x) {
    vf64 a = ks_wide_abs(x), z = x * x;
    vf64 near = ks_wide_fma(a * z, ks_wide_fma(z, ks_wide_set(3 / 40.0), ks_wide_set(-1 / 6.0)), a);
    vf64 far = ks_wide_log2(a + ks_wide_sqrt(z + 1.0)) * 0.6931471805599453;
    return ks_wide_copysign(a < 0.01 ? near : far, x);
}

//@ ks_asinh_f32
KS_LIFT1(ks_asinh_f32, ks_wide_asinh)

//@ ks_wide_acosh
static inline vf64 ks_wide_acosh(vf64 x) {
    vf64 y = ks_wide_log2(x + ks_wide_sqrt(x * x - 1.0)) * 0.6931471805599453;
    return x >= 1.0 ? y : ks_wide_set(__builtin_nan(""));
}

//@ ks_acosh_f32
KS_LIFT1(ks_acosh_f32, ks_wide_acosh)

//@ ks_wide_atanh
static inline vf64 ks_wide_atanh(vf64 x) {
    vf64 a = ks_wide_abs(x), z = x * x;
    vf64 near = ks_wide_fma(x * z, ks_wide_fma(z, ks_wide_set(1 / 5.0), ks_wide_set(1 / 3.0)), x);
    vf64 far = ks_wide_log2((1.0 + a) / (1.0 - a)) * 0.34657359027997264;
    far = a > 1.0 ? ks_wide_set(__builtin_nan("")) : far;
    return a < 0.01 ? near : ks_wide_copysign(far, x);
}

//@ ks_atanh_f32
KS_LIFT1(ks_atanh_f32, ks_wide_atanh)

//@ ks_wide_asin_near
// asin(x) for |x| <= 1/2
static inline vf64 ks_wide_asin_near(vf64 x) {
    vf64 z = x * x;
    vf64 p = ks_wide_set(0.03197535290120406);
    p = ks_wide_fma(p, z, ks_wide_set(-0.0028753020959594805));
    p = ks_wide_fma(p, z, ks_wide_set(0.018637908474408143));
    p = ks_wide_fma(p, z, ks_wide_set(0.016475956292848072));
    p = ks_wide_fma(p, z, ks_wide_set(0.02247155285332624));
    p = ks_wide_fma(p, z, ks_wide_set(0.030375213504491124));
    p = ks_wide_fma(p, z, ks_wide_set(0.044643113326100374));
    p = ks_wide_fma(p, z, ks_wide_set(0.07499999523806027));
    p = ks_wide_fma(p, z, ks_wide_set(0.16666666669708488));
    return ks_wide_fma(p * z, x, x);
}

//@ ks_wide_asin
static inline vf64 ks_wide_asin(vf64 x) {
    vf64 a = ks_wide_abs(x);
    vf64 far = 1.5707963267948966 - 2.0 * ks_wide_asin_near(ks_wide_sqrt((1.0 - a) * 0.5));
    return a <= 0.5 ? ks_wide_asin_near(x) : ks_wide_copysign(far, x);
}

//@ ks_asin_f32
KS_LIFT1(ks_asin_f32, ks_wide_asin)

//@ ks_wide_acos
static inline vf64 ks_wide_acos(vf64 x) {
    vf64 a = ks_wide_abs(x);
    vf64 far = 2.0 * ks_wide_asin_near(ks_wide_sqrt((1.0 - a) * 0.5));
    far = x < 0.0 ? 3.141592653589793 - far : far;
    return a <= 0.5 ? 1.5707963267948966 - ks_wide_asin_near(x) : far;
}

//@ ks_acos_f32
KS_LIFT1(ks_acos_f32, ks_wide_acos)

//@ ks_wide_atan_ratio
// atan(y / x) for y, x >= 0, by the ratio that lies within tan(pi/8)
static inline vf64 ks_wide_atan_ratio(vf64 y, vf64 x) {
    const double bend = 0.41421356237309503;
    vi64 low = y <= bend * x, high = y * bend >= x;
    vf64 top = low ? y : high ? -x : y - x;
    vf64 bottom = low ? x : high ? y : y + x;
    vf64 base = low ? ks_wide_set(0.0) : high ? ks_wide_set(1.5707963267948966) : ks_wide_set(0.7853981633974483);
    vf64 t = top / bottom, z = t * t;
    vf64 p = ks_wide_set(0.03089128580645963);
    p = ks_wide_fma(p, z, ks_wide_set(-0.058908384943606805));
    p = ks_wide_fma(p, z, ks_wide_set(0.07568482918097452));
    p = ks_wide_fma(p, z, ks_wide_set(-0.0907912996012774));
    p = ks_wide_fma(p, z, ks_wide_set(0.11110449424126105));
    p = ks_wide_fma(p, z, ks_wide_set(-0.14285693574362807));
    p = ks_wide_fma(p, z, ks_wide_set(0.19999999685228662));
    p = ks_wide_fma(p, z, ks_wide_set(-0.333333333316948));
    return base + ks_wide_fma(p * z, t, t);
}

//@ ks_wide_atan
static inline vf64 ks_wide_atan(vf64 x) {
    vf64 y = ks_wide_atan_ratio(ks_wide_abs(x), ks_wide_set(1.0));
    y = ks_wide_abs(x) == __builtin_inf() ? ks_wide_set(1.5707963267948966) : y;
    return ks_wide_copysign(y, x);
}

//@ ks_atan_f32
KS_LIFT1(ks_atan_f32, ks_wide_atan)

//@ ks_wide_atan2
static inline vf64 ks_wide_atan2(vf64 y, vf64 x) {
    vf64 a = ks_wide_abs(y), b = ks_wide_abs(x);
    vi64 both = (a == __builtin_inf()) & (b == __builtin_inf());
    vf64 big = ks_wide_set(1e300);  // stands for one infinity; no float32 is near it
    vf64 top = both ? ks_wide_set(1.0) : a > big ? big : a;
    vf64 bottom = both ? ks_wide_set(1.0) : b > big ? big : b;
    vf64 r = ks_wide_atan_ratio(top, bottom);
    r = a == 0.0 ? ks_wide_set(0.0) : r;
    r = (vi64)x < 0 ? 3.141592653589793 - r : r;
    r = (x != x) | (y != y) ? ks_wide_set(__builtin_nan("")) : r;
    return ks_wide_copysign(r, y);
}

//@ ks_atan2_f32
KS_LIFT2(ks_atan2_f32, ks_wide_atan2)

//@ ks_wide_cbrt
static inline vf64 ks_wide_cbrt(vf64 x) {
    return ks_wide_copysign(ks_wide_exp2(ks_wide_log2(ks_wide_abs(x)) * (1 / 3.0)), x);
}

//@ ks_cbrt_f32
KS_LIFT1(ks_cbrt_f32, ks_wide_cbrt)

//@ ks_wide_hypot
static inline vf64 ks_wide_hypot(vf64 x, vf64 y) {
    vf64 r = ks_wide_sqrt(x * x + y * y);
    vi64 infinite = (ks_wide_abs(x) == __builtin_inf()) | (ks_wide_abs(y) == __builtin_inf());
    return infinite ? ks_wide_set(__builtin_inf()) : r;
}

//@ ks_hypot_f32
KS_LIFT2(ks_hypot_f32, ks_wide_hypot)

//@ ks_wide_tan_near
// tan(r) for r in [-pi/4, pi/4]
static inline vf64 ks_wide_tan_near(vf64 r) {
    vf64 z = r * r;
    vf64 p = ks_wide_set(0.0009602773299679328);
    p = ks_wide_fma(p, z, ks_wide_set(-0.0005979999738823976));
    p = ks_wide_fma(p, z, ks_wide_set(0.0024189891213057947));
    p = ks_wide_fma(p, z, ks_wide_set(0.0031420259592034646));
    p = ks_wide_fma(p, z, ks_wide_set(0.008990008217165533));
    p = ks_wide_fma(p, z, ks_wide_set(0.021848187064681078));
    p = ks_wide_fma(p, z, ks_wide_set(0.05397026397383291));
    p = ks_wide_fma(p, z, ks_wide_set(0.13333324075029573));
    p = ks_wide_fma(p, z, ks_wide_set(0.33333333479843963));
    return ks_wide_fma(p * z, r, r);
}

//@ ks_wide_sine
// sin(pi/2 * (r + quarters)) for |r| <= 1/2 and whole quarters
static inline vf64 ks_wide_sine(vf64 r, vf64 quarters) {
    r = r * 1.5707963267948966;
    vf64 z = r * r;
    vf64 s = ks_wide_set(-2.4761407084165e-08);
    s = ks_wide_fma(s, z, ks_wide_set(2.7555354453136002e-06));
    s = ks_wide_fma(s, z, ks_wide_set(-0.0001984126380785959));
    s = ks_wide_fma(s, z, ks_wide_set(0.008333333325245008));
    s = ks_wide_fma(s, z, ks_wide_set(-0.1666666666663145));
    s = ks_wide_fma(s * z, r, r);
    vf64 c = ks_wide_set(2.063333689004327e-09);
    c = ks_wide_fma(c, z, ks_wide_set(-2.75552921308811e-07));
    c = ks_wide_fma(c, z, ks_wide_set(2.4801578990262817e-05));
    c = ks_wide_fma(c, z, ks_wide_set(-0.0013888888871654243));
    c = ks_wide_fma(c, z, ks_wide_set(0.04166666666650233));
    c = ks_wide_fma(c, z, ks_wide_set(-0.4999999999999948));
    c = ks_wide_fma(c, z, ks_wide_set(1.0));
    vi64 turn = (vi64)(quarters + 6755399441055744.0);
    vf64 y = (turn & 1) == 0 ? s : c;
    return (vf64)((vi64)y ^ (turn & 2) << 62);
}

//@ ks_wide_sinpi
static inline vf64 ks_wide_sinpi(vf64 x) {
    vf64 twice = ks_wide_abs(x) >= 16777216.0 ? x * 0.0 : x + x;  // large floats are even numbers; infinity gives NaN
    vf64 quarters = ks_wide_rint(twice), y = ks_wide_sine(twice - quarters, quarters);
    return y == 0.0 ? ks_wide_copysign(y, x) : y;
}

//@ ks_sinpi_f32
KS_LIFT1(ks_sinpi_f32, ks_wide_sinpi)

//@ ks_wide_cospi
static inline vf64 ks_wide_cospi(vf64 x) {
    vf64 twice = ks_wide_abs(x) >= 16777216.0 ? x * 0.0 : x + x;
    vf64 quarters = ks_wide_rint(twice);
    return ks_wide_sine(twice - quarters, quarters + 1.0) + 0.0;  // a zero is +0
}

//@ ks_cospi_f32
KS_LIFT1(ks_cospi_f32, ks_wide_cospi)

//@ ks_tan_f32
static __attribute__((noinline)) vf32 ks_tan_f32(vf32 x) {
    const double limit = 100000.0;
    vf64 y[2];
    for (int half = 0; half < 2; half++) {
        vf64 a = ks_widen(x, half), k = ks_wide_rint(a * 0.6366197723675814);
        vf64 r = ks_wide_fma(k, ks_wide_set(-1.5707963267948966), a);
        r = ks_wide_fma(k, ks_wide_set(-6.123233995736766e-17), r);
        vi64 quadrant = (vi64)(k + 6755399441055744.0);
        for (int i = 0; i < KS_LANES / 2; i++) {
            if (__builtin_fabs(a[i]) <= limit) continue;
            int q;
            r[i] = ks_reduce_large((float)a[i], &q);
            quadrant[i] = q;
        }
        vf64 t = ks_wide_tan_near(r);
        y[half] = (quadrant & 1) == 0 ? t : -1.0 / t;
        y[half] = a == 0.0 ? a : y[half];
    }
    return ks_narrow(y[0], y[1]);
}

//@ ks_fmod_f32
static __attribute__((noinline)) vf32 ks_fmod_f32(vf32 x, vf32 y) {
    vf64 rest[2];
    for (int half = 0; half < 2; half++) {
        vf64 a = ks_wide_abs(ks_widen(x, half)), b = ks_wide_abs(ks_widen(y, half)), ratio = a / b;
        vf64 whole = ks_wide_rint(ratio);
        whole = whole > ratio ? whole - 1.0 : whole;
        vf64 r = ks_wide_fma(-whole, b, a);  // exact; below zero where the ratio was rounded up to a whole number
        r = r < 0.0 ? r + b : r;
        for (int i = 0; i < KS_LANES / 2; i++)
            if (!(ratio[i] < 1e15) || b[i] == __builtin_inf()) r[i] = ks_fmod_f64(a[i], b[i]);
        rest[half] = r;
    }
    return ks_copysign_f32(ks_narrow(rest[0], rest[1]), x);
}
