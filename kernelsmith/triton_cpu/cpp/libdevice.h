// libdevice functions that are no function of the maths library: integers, bits, conversions, directed rounding. Meanings
// are those of the CUDA libdevice guide, results out of range those of PTX's cvt: clamped, NaN to 0 or, where 64 bits are
// involved, to the top bit alone. A vector asks these lane by lane. Split at the "//@" lines like math_f32.h.

//@ ksl_abs ksl_llabs
KS_INLINE i32 ksl_abs(i32 x) { return x < 0 ? (i32)(0 - (u32)x) : x; }
KS_INLINE i64 ksl_llabs(i64 x) { return x < 0 ? (i64)(0 - (u64)x) : x; }

//@ ksl_clz ksl_clzll
KS_INLINE i32 ksl_clz(u32 x) { return x ? __builtin_clz(x) : 32; }
KS_INLINE i32 ksl_clzll(u64 x) { return x ? __builtin_clzl(x) : 64; }

//@ ksl_popc ksl_popcll
KS_INLINE i32 ksl_popc(u32 x) { return __builtin_popcount(x); }
KS_INLINE i32 ksl_popcll(u64 x) { return __builtin_popcountl(x); }

//@ ksl_ffs ksl_ffsll
KS_INLINE i32 ksl_ffs(u32 x) { return x ? __builtin_ctz(x) + 1 : 0; }
KS_INLINE i32 ksl_ffsll(u64 x) { return x ? __builtin_ctzl(x) + 1 : 0; }

//@ ksl_brev ksl_brevll
KS_INLINE u64 ksl_brevll(u64 x) {
  x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
  x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
  x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
  return __builtin_bswap64(x);
}
KS_INLINE u32 ksl_brev(u32 x) { return (u32)(ksl_brevll(x) >> 32); }

//@ ksl_byte_perm
KS_INLINE u32 ksl_byte_perm(u32 x, u32 y, u32 selector) {
  const u64 bytes = (u64)y << 32 | x;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 choice = selector >> 4 * i & 15, byte = bytes >> 8 * (choice & 7) & 0xff;
    r |= (choice & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;  // the top bit asks for the byte's sign
  }
  return r;
}

//@ ksl_mulhi ksl_umulhi ksl_mul64hi ksl_umul64hi
KS_INLINE i32 ksl_mulhi(i32 x, i32 y) { return (i32)((i64)x * y >> 32); }
KS_INLINE u32 ksl_umulhi(u32 x, u32 y) { return (u32)((u64)x * y >> 32); }
KS_INLINE i64 ksl_mul64hi(i64 x, i64 y) { return (i64)((__int128)x * y >> 64); }
KS_INLINE u64 ksl_umul64hi(u64 x, u64 y) { return (u64)((unsigned __int128)x * y >> 64); }

//@ ksl_mul24 ksl_umul24
KS_INLINE i32 ksl_mul24(i32 x, i32 y) { return (i32)((u32)((i32)((u32)x << 8) >> 8) * (u32)((i32)((u32)y << 8) >> 8)); }
KS_INLINE u32 ksl_umul24(u32 x, u32 y) { return (x & 0xffffff) * (y & 0xffffff); }

//@ ksl_sad ksl_usad
KS_INLINE u32 ksl_sad(i32 x, i32 y, u32 z) { return z + (x > y ? (u32)x - (u32)y : (u32)y - (u32)x); }
KS_INLINE u32 ksl_usad(u32 x, u32 y, u32 z) { return z + (x > y ? x - y : y - x); }

//@ ksl_hadd ksl_uhadd ksl_rhadd ksl_urhadd
KS_INLINE i32 ksl_hadd(i32 x, i32 y) { return (i32)(((i64)x + y) >> 1); }
KS_INLINE u32 ksl_uhadd(u32 x, u32 y) { return (u32)(((u64)x + y) >> 1); }
KS_INLINE i32 ksl_rhadd(i32 x, i32 y) { return (i32)(((i64)x + y + 1) >> 1); }
KS_INLINE u32 ksl_urhadd(u32 x, u32 y) { return (u32)(((u64)x + y + 1) >> 1); }

//@ ksl_saturatef
KS_INLINE f32 ksl_saturatef(f32 x) { return x > 0 ? (x < 1 ? x : 1) : 0; }

//@ ksl_signbitf ksl_signbitd
KS_INLINE i32 ksl_signbitf(f32 x) { return (i32)(ks_bits_of(x) >> 31); }
KS_INLINE i32 ksl_signbitd(f64 x) { return (i32)(ks_bits_of(x) >> 63); }

//@ ksl_ilogb ksl_ilogbf
KS_INLINE i32 ksl_ilogb(f64 x) {
  const u64 bits = ks_bits_of(x) & ~(1ul << 63);
  if (bits >= 0x7ff0000000000000) return bits == 0x7ff0000000000000 ? 2147483647 : -2147483647 - 1;
  if (bits == 0) return -2147483647 - 1;
  return bits >> 52 ? (i32)(bits >> 52) - 1023 : -1011 - __builtin_clzl(bits);
}
KS_INLINE i32 ksl_ilogbf(f32 x) { return ksl_ilogb(x); }

//@ ksl_rcp64h
KS_INLINE f64 ksl_rcp64h(f64 x) { return ks_f64_of(ks_bits_of(1 / x) & 0xffffffff00000000); }

//@ ksl_double2hiint ksl_double2loint ksl_hiloint2double
KS_INLINE u32 ksl_double2hiint(f64 x) { return (u32)(ks_bits_of(x) >> 32); }
KS_INLINE u32 ksl_double2loint(f64 x) { return (u32)ks_bits_of(x); }
KS_INLINE f64 ksl_hiloint2double(u32 high, u32 low) { return ks_f64_of((u64)high << 32 | low); }

//@ ksl_float_as_int ksl_int_as_float ksl_double_as_longlong ksl_longlong_as_double
KS_INLINE u32 ksl_float_as_int(f32 x) { return ks_bits_of(x); }
KS_INLINE f32 ksl_int_as_float(u32 x) { return ks_f32_of(x); }
KS_INLINE u64 ksl_double_as_longlong(f64 x) { return ks_bits_of(x); }
KS_INLINE f64 ksl_longlong_as_double(u64 x) { return ks_f64_of(x); }

//@ KSL_DOWN KSL_UP KSL_ZERO KSL_NEAR ksl_rounded
// The rounding mode is the thread's own; what stands between two of these fences is computed under it.
#if defined(__aarch64__)
enum { KSL_NEAR = 0, KSL_UP = 0x400000, KSL_DOWN = 0x800000, KSL_ZERO = 0xc00000 };
#else
enum { KSL_NEAR = 0, KSL_DOWN = 0x400, KSL_UP = 0x800, KSL_ZERO = 0xc00 };
#endif
extern "C" int fesetround(int);
template <class T> KS_INLINE T ksl_fence(T x) {
  __asm__ volatile("" : "+m"(x) : : "memory");
  return x;
}
template <int MODE, class F, class... A> KS_INLINE auto ksl_rounded(F f, A... a) {
  fesetround(MODE);
  auto r = ksl_fence(f(ksl_fence(a)...));
  fesetround(KSL_NEAR);
  return r;
}

//@ ksl_whole
template <class T> KS_INLINE T ksl_invalid(f32) { return sizeof(T) == 4 ? 0 : (T)1 << (8 * sizeof(T) - 1); }
template <class T> KS_INLINE T ksl_invalid(f64) { return (T)1 << (8 * sizeof(T) - 1); }
// `x` is whole; 2^bits is where the type ends
template <class T, class F> KS_INLINE T ksl_whole(F x) {
  const bool is_signed = (T)-1 < (T)0;
  const F end = (F)((u64)1 << (8 * sizeof(T) - (is_signed ? 1 : 0) - 1)) * 2;
  if (x != x) return ksl_invalid<T>(x);
  if (x >= end) return is_signed ? (T)~((T)1 << (8 * sizeof(T) - 1)) : (T)-1;
  if (x < (is_signed ? -end : 0)) return is_signed ? (T)1 << (8 * sizeof(T) - 1) : 0;
  return (T)x;
}
