// Functions of double that the C library lacks; a float32 vector asks them lane by lane. Split at the "//@" lines.

//@ ks_rsqrt_f64
static inline double ks_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

//@ ks_roundeven_f64
static inline double ks_roundeven_f64(double x) { return __builtin_rint(x); }

//@ ks_fdiv_rz_f32
// Rounded towards zero. The quotient of two floats that is no float differs from every float by 2^-48 of it or more, so
// rounding it to double first changes no verdict.
static __attribute__((noinline)) vf32 ks_fdiv_rz_f32(vf32 x, vf32 y) {
    vf32 r;
    for (int i = 0; i < KSM_LANES; i++) {
        double quotient = (double)x[i] / (double)y[i];
        float nearest = (float)quotient;
        int bits;
        __builtin_memcpy(&bits, &nearest, 4);
        bits -= __builtin_fabs((double)nearest) > __builtin_fabs(quotient);
        __builtin_memcpy(&nearest, &bits, 4);
        r[i] = nearest;
    }
    return r;
}

//@ ks_rcbrt_f64
static inline double ks_rcbrt_f64(double x) { return 1.0 / ks_cbrt_f64(x); }

//@ ks_rhypot_f64
static inline double ks_rhypot_f64(double x, double y) { return 1.0 / ks_hypot_f64(x, y); }

//@ ks_norm3d_f64
static inline double ks_norm3d_f64(double x, double y, double z) { return ks_hypot_f64(ks_hypot_f64(x, y), z); }

//@ ks_rnorm3d_f64
static inline double ks_rnorm3d_f64(double x, double y, double z) { return 1.0 / ks_norm3d_f64(x, y, z); }

//@ ks_norm4d_f64
static inline double ks_norm4d_f64(double x, double y, double z, double w) {
    return ks_hypot_f64(ks_hypot_f64(x, y), ks_hypot_f64(z, w));
}

//@ ks_rnorm4d_f64
static inline double ks_rnorm4d_f64(double x, double y, double z, double w) { return 1.0 / ks_norm4d_f64(x, y, z, w); }

//@ ks_powi_f64
static inline double ks_powi_f64(double x, int n) { return ks_pow_f64(x, n); }

//@ ksm_turn
// sin(pi * (x + quarters / 2)); exact where the result is 0 or 1
static double ksm_turn(double x, int quarters) {
    double twice = ks_fmod_f64(x, 2.0) * 2.0, nearest = __builtin_rint(twice);
    double angle = (twice - nearest) * 1.5707963267948966;
    if (!(x - x == 0.0)) return __builtin_nan("");
    int turn = (int)nearest + quarters;
    double y = turn & 1 ? ks_cos_f64(angle) : ks_sin_f64(angle);
    return turn & 2 ? -y : y;
}

//@ ks_sinpi_f64
static double ks_sinpi_f64(double x) {
    double y = ksm_turn(x, 0);
    return y == 0.0 ? __builtin_copysign(y, x) : y;
}

//@ ks_cospi_f64
static double ks_cospi_f64(double x) { return ksm_turn(x, 1) + 0.0; }

//@ ks_normcdf_f64
// The argument's rounding error is multiplied by its square far out, so it is carried on to first order.
static double ks_normcdf_f64(double x) {
    double y = x * -0.7071067811865476;
    double lost = __builtin_fma(x, -0.7071067811865476, -y) + x * 4.833646656726457e-17;
    double value = ks_erfc_f64(y);
    if (y > 1.0 && y < 27.0) value -= lost * 1.1283791670955126 * ks_exp_f64(-y * y);
    return 0.5 * value;
}

//@ ks_erfcx_f64
static double ks_erfcx_f64(double x) {
    if (x < 25.0) {
        double square = x * x, lost = __builtin_fma(x, x, -square);
        double power = ks_exp_f64(square);
        return (power + (power - power == 0.0 ? power * lost : 0.0)) * ks_erfc_f64(x);
    }
    double w = 1.0 / (x * x);  // asymptotic series
    return 0.5641895835477563 / x * (1.0 - w * (0.5 - w * (0.75 - w * (1.875 - w * 6.5625))));
}

//@ ksm_erf_root
// The y >= 0 with erf(y) = p and erfc(y) = q, of which the smaller is exact. Start: S. Winitzki, "A handy approximation
// for the error function and its inverse" (2008), good to 2e-3; Halley's rule triples the digits at each step.
static double ksm_erf_root(double p, double q) {
    const double a = 0.147, log_pq = ks_log_f64(q * (1.0 + p));
    double t = 2.0 / (3.141592653589793 * a) + 0.5 * log_pq;
    double y = __builtin_sqrt(__builtin_sqrt(t * t - log_pq / a) - t);
    for (int i = 0; i < 3; i++) {
        double error = p < q ? ks_erf_f64(y) - p : q - ks_erfc_f64(y);
        double step = error * 0.886226925452758 * ks_exp_f64(y * y);
        y -= step / (1.0 + y * step);
    }
    return y;
}

//@ ks_erfinv_f64
static double ks_erfinv_f64(double x) {
    double p = __builtin_fabs(x);
    if (!(p < 1.0)) return p == 1.0 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
    if (p < 1e-5) return x * (0.886226925452758 + 0.23201366653465449 * p * p);
    return __builtin_copysign(ksm_erf_root(p, 1.0 - p), x);
}

//@ ks_erfcinv_f64
static double ks_erfcinv_f64(double x) {
    if (!(x > 0.0 && x < 2.0)) return x == 0.0 ? __builtin_inf() : x == 2.0 ? -__builtin_inf() : __builtin_nan("");
    return x <= 1.0 ? ksm_erf_root(1.0 - x, x) : -ksm_erf_root(x - 1.0, 2.0 - x);
}

//@ ks_normcdfinv_f64
static double ks_normcdfinv_f64(double x) { return -1.4142135623730951 * ks_erfcinv_f64(2.0 * x); }

//@ ksm_bessel_series
// sum over k of (x*x/4)^k / (k! * (k + order)!), all terms positive
static double ksm_bessel_series(double x, int order) {
    double quarter = x * x * 0.25, term = 1.0, sum = 1.0;
    for (int k = 1; k < 2000 && term > sum * 1e-17; k++) sum += term *= quarter / ((double)k * (k + order));
    return sum;
}

//@ ks_cyl_bessel_i0_f64
static double ks_cyl_bessel_i0_f64(double x) {
    return __builtin_fabs(x) > 720.0 ? __builtin_inf() : x != x ? x : ksm_bessel_series(x, 0);
}

//@ ks_cyl_bessel_i1_f64
static double ks_cyl_bessel_i1_f64(double x) {
    if (__builtin_fabs(x) > 720.0) return __builtin_copysign(__builtin_inf(), x);
    return x != x ? x : 0.5 * x * ksm_bessel_series(x, 1);
}
