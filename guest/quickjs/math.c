/* `pow`, `exp`, `log`, `log10`, `cos` and `tanh` to the last bit as V8 gives them.
 *
 * V8 evaluates them by the methods of fdlibm (K. C. Ng, Sun Microsystems), which round the last bit differently from
 * wasi-libc in about one call of a hundred; and programs print such numbers: `1000 * 1.05 ** 10`. These are those methods,
 * written anew; the coefficients are the published ones. Defined here, they take the place of libc's. */
#include <math.h>
#include <stdint.h>
#include <string.h>

double pow(double x, double y);
double exp(double x);
double log(double x);
double log10(double x);
double tanh(double x);
/* wasi-libc's kernel of `cos` on [-pi/4, pi/4], `y` the rest of the reduced argument `x`. */
double __cos(double x, double y);

static uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static int32_t high_word(double x) { return (int32_t)(bits_of(x) >> 32); }
static double with_high_word(double x, int32_t high)
{
    return double_of((uint64_t)(uint32_t)high << 32 | (uint32_t)bits_of(x));
}
/* The upper 21 bits of the fraction, so that products of two of them are exact. */
static double upper_part(double x) { return double_of(bits_of(x) & 0xffffffff00000000u); }

/* Coefficients of x - t*(P1 + t*(P2 + …)), t = x², in the evaluation of e^x on [-ln2/2, ln2/2]. */
static const double exp_terms[5] = {
    1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05,
    -1.65339022054652515390e-06, 4.13813679705723846039e-08,
};

static double exp_polynomial(double t)
{
    double sum = exp_terms[4];
    for (int i = 3; i >= 0; i--)
        sum = exp_terms[i] + t * sum;
    return t * sum;
}

static const double ln2_high = 6.93147180369123816490e-01;
static const double ln2_low = 1.90821492927058770002e-10;

double exp(double x)
{
    double high = 0, low = 0;
    int k = 0;
    int32_t magnitude = high_word(x) & 0x7fffffff;
    if (magnitude >= 0x40862e42) { /* |x| >= 709.78…, infinite or NaN */
        if (isnan(x))
            return x;
        if (x > 7.09782712893383973096e+02)
            return INFINITY;
        if (x < -7.45133219101941108420e+02)
            return 0;
    }
    if (magnitude > 0x3fd62e42) { /* |x| > ln2 / 2 */
        if (magnitude < 0x3ff0a2b2) { /* |x| < 3/2 ln2 */
            if (x == 1)
                return 2.718281828459045;
            k = x < 0 ? -1 : 1;
            high = x - k * ln2_high;
            low = k * ln2_low;
        } else {
            k = (int)(1.44269504088896338700e+00 * x + (x < 0 ? -0.5 : 0.5));
            high = x - k * ln2_high;
            low = k * ln2_low;
        }
        x = high - low;
    } else if (magnitude < 0x3e300000) { /* |x| < 2^-28 */
        return 1 + x;
    }
    double c = x - exp_polynomial(x * x);
    if (k == 0)
        return 1 - ((x * c) / (c - 2) - x);
    double y = 1 - ((low - (x * c) / (2 - c)) - high);
    if (k == 1024)
        return y * 2 * 0x1p1023;
    if (k >= -1021)
        return y * double_of((uint64_t)(0x3ff + k) << 52);
    return y * double_of((uint64_t)(0x3ff + k + 1000) << 52) * 0x1p-1000;
}

double log(double x)
{
    int32_t high = high_word(x);
    int k = 0;
    if (high < 0x00100000) {
        if ((bits_of(x) & 0x7fffffffffffffffu) == 0)
            return -INFINITY;
        if (high < 0)
            return NAN;
        k = -54;
        x *= 0x1p54;
        high = high_word(x);
    }
    if (high >= 0x7ff00000)
        return x + x;
    k += (high >> 20) - 1023;
    high &= 0x000fffff;
    int32_t carry = (high + 0x95f64) & 0x100000;
    x = with_high_word(x, high | (carry ^ 0x3ff00000)); /* x or x / 2, near 1 */
    k += carry >> 20;
    double f = x - 1, dk = k;
    if ((0x000fffff & (2 + high)) < 3) { /* |f| < 2^-20 */
        if (f == 0)
            return k == 0 ? 0 : dk * ln2_high + dk * ln2_low;
        double r = f * f * (0.5 - 0.33333333333333333 * f);
        return k == 0 ? f - r : dk * ln2_high - ((r - dk * ln2_low) - f);
    }
    double s = f / (2 + f), z = s * s, w = z * z;
    double even = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double odd = z * (6.666666666666735130e-01 +
                      w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    double r = odd + even;
    if (((high - 0x6147a) | (0x6b851 - high)) > 0) {
        double half = 0.5 * f * f;
        if (k == 0)
            return f - (half - s * (half + r));
        return dk * ln2_high - ((half - (s * (half + r) + dk * ln2_low)) - f);
    }
    if (k == 0)
        return f - s * (f - r);
    return dk * ln2_high - ((s * (f - r) - dk * ln2_low) - f);
}

/* 0: not an integer, 1: odd, 2: even. */
static int integer_kind(double y)
{
    if (fabs(y) >= 0x1p53)
        return 2;
    if (y != trunc(y))
        return 0;
    return fmod(y, 2) == 0 ? 2 : 1;
}

/* log2(x) of a positive, finite x other than tiny ones, as a sum `*sum` + rest with about 75 good bits. */
static double log2_in_two(double x, double *sum)
{
    static const double base[2] = { 1.0, 1.5 };
    static const double base_high[2] = { 0.0, 5.84962487220764160156e-01 };
    static const double base_low[2] = { 0.0, 1.35003920212974897128e-08 };
    int n = 0;
    int32_t high = high_word(x);
    if (high < 0x00100000) {
        x *= 0x1p53;
        n = -53;
        high = high_word(x);
    }
    n += (high >> 20) - 0x3ff;
    int32_t fraction = high & 0x000fffff;
    high = fraction | 0x3ff00000;
    int k = 0;
    if (fraction > 0x3988e) { /* |x| > sqrt(3/2) */
        if (fraction < 0xbb67a) { /* |x| < sqrt(3) */
            k = 1;
        } else {
            n++;
            high -= 0x00100000;
        }
    }
    x = with_high_word(x, high);
    double u = x - base[k], v = 1 / (x + base[k]), s = u * v;
    double s_high = upper_part(s);
    double t_high = with_high_word(0, ((high >> 1) | 0x20000000) + 0x00080000 + (k << 18));
    double t_low = x - (t_high - base[k]);
    double s_low = v * ((u - s_high * t_high) - s_high * t_low);
    double s2 = s * s;
    double r = s2 * s2 *
               (5.99999999999994648725e-01 +
                s2 * (4.28571428578550184252e-01 +
                      s2 * (3.33333329818377432918e-01 +
                            s2 * (2.72728123808534006489e-01 +
                                  s2 * (2.30660745775561754067e-01 + s2 * 2.06975017800338417784e-01)))));
    r += s_low * (s_high + s);
    s2 = s_high * s_high;
    t_high = upper_part(3.0 + s2 + r);
    t_low = r - ((t_high - 3.0) - s2);
    u = s_high * t_high;
    v = s_low * t_high + t_low * s;
    double p_high = upper_part(u + v);
    double p_low = v - (p_high - u);
    double z_high = 9.61796700954437255859e-01 * p_high;
    double z_low = -7.02846165095275826516e-09 * p_high + p_low * 9.61796693925975554329e-01 + base_low[k];
    double t = n;
    *sum = upper_part(((z_high + z_low) + base_high[k]) + t);
    return z_low - (((*sum - t) - base_high[k]) - z_high);
}

/* log2(x) for |1 - x| <= 2^-20, where the series of log(x) is short. */
static double log2_near_one(double x, double *sum)
{
    double t = x - 1;
    double w = t * t * (0.5 - t * (0.3333333333333333333333 - t * 0.25));
    double u = 1.44269502162933349609e+00 * t;
    double v = t * 1.92596299112661746887e-08 - w * 1.44269504088896338700e+00;
    *sum = upper_part(u + v);
    return v - (*sum - u);
}

/* 2^(high + low), times `sign`. */
static double exp2_of_two(double high, double low, double sign)
{
    double z = low + high;
    int32_t j = high_word(z), i = j & 0x7fffffff, n = 0;
    uint32_t j_low = (uint32_t)bits_of(z);
    if (j >= 0x40900000) { /* z >= 1024 */
        if (((j - 0x40900000) | (int32_t)j_low) != 0 || low + 8.0085662595372944372e-17 > z - high)
            return sign * INFINITY;
    } else if (i >= 0x4090cc00) { /* z <= -1075 */
        if ((((uint32_t)j - 0xc090cc00u) | j_low) != 0 || low <= z - high)
            return sign * 0.0;
    }
    int k = (i >> 20) - 0x3ff;
    if (i > 0x3fe00000) { /* |z| > 1/2: n = round(z) */
        n = j + (0x00100000 >> (k + 1));
        k = ((n & 0x7fffffff) >> 20) - 0x3ff;
        high -= with_high_word(0, n & ~(0x000fffff >> k));
        n = ((n & 0x000fffff) | 0x00100000) >> (20 - k);
        if (j < 0)
            n = -n;
    }
    double t = upper_part(low + high);
    double u = t * 6.93147182464599609375e-01;
    double v = (low - (t - high)) * 6.93147180559945286227e-01 + t * -1.90465429995776804525e-09;
    z = u + v;
    double w = v - (z - u);
    double t1 = z - exp_polynomial(z * z);
    /* fdlibm closes the divisor before the last subtraction; V8 does not, and it is V8's digits that count here. */
    double r = (z * t1) / ((t1 - 2) - (w + z * w));
    z = 1 - (r - z);
    j = high_word(z) + (int32_t)((uint32_t)n << 20);
    z = (j >> 20) <= 0 ? scalbn(z, n) : with_high_word(z, j);
    return sign * z;
}

double pow(double x, double y)
{
    if (y == 0)
        return 1;
    if (isnan(x) || isnan(y))
        return NAN;
    double magnitude = fabs(x);
    if (isinf(y)) {
        if (magnitude == 1)
            return NAN; /* ECMAScript, unlike C */
        return (magnitude > 1) == (y > 0) ? INFINITY : 0;
    }
    int kind = x < 0 || signbit(x) ? integer_kind(y) : 0;
    if (y == 1)
        return x;
    if (y == 2)
        return x * x;
    if (y == 0.5 && !signbit(x))
        return sqrt(x);
    if (y == -1)
        return 1 / x;
    if (magnitude == 0 || magnitude == 1 || isinf(x)) {
        double z = y < 0 ? 1 / magnitude : magnitude;
        if (x < 0 || signbit(x)) {
            if (magnitude == 1 && kind == 0)
                return NAN;
            if (kind == 1)
                z = -z;
        }
        return z;
    }
    if (x < 0 && kind == 0)
        return NAN;
    double sign = x < 0 && kind == 1 ? -1 : 1;
    double log_high, log_low;
    int32_t y_magnitude = high_word(y) & 0x7fffffff, x_magnitude = high_word(magnitude);
    if (y_magnitude > 0x41e00000) { /* |y| > 2^31: the answer is 0, 1 or infinite unless x is next to 1 */
        if (y_magnitude > 0x43f00000) {
            if (x_magnitude <= 0x3fefffff)
                return y < 0 ? INFINITY : 0;
            if (x_magnitude >= 0x3ff00000)
                return y > 0 ? INFINITY : 0;
        }
        if (x_magnitude < 0x3fefffff)
            return y < 0 ? sign * INFINITY : sign * 0.0;
        if (x_magnitude > 0x3ff00000)
            return y > 0 ? sign * INFINITY : sign * 0.0;
        log_low = log2_near_one(magnitude, &log_high);
    } else {
        log_low = log2_in_two(magnitude, &log_high);
    }
    double y_high = upper_part(y);
    return exp2_of_two(y_high * log_high, (y - y_high) * log_high + y * log_low, sign);
}

double tanh(double x)
{
    int32_t magnitude = high_word(x) & 0x7fffffff;
    double z;
    if (isnan(x))
        return x;
    if (magnitude >= 0x40360000) { /* |x| >= 22 */
        z = 1;
    } else if (magnitude < 0x3e300000) { /* |x| < 2^-28 */
        return x;
    } else if (magnitude >= 0x3ff00000) {
        z = 1 - 2 / (expm1(2 * fabs(x)) + 2);
    } else {
        double t = expm1(-2 * fabs(x));
        z = -t / (t + 2);
    }
    return copysign(z, x);
}

double __cos(double x, double y)
{
    int32_t magnitude = high_word(x) & 0x7fffffff;
    if (magnitude < 0x3e400000) /* |x| < 2^-27 */
        return 1;
    double z = x * x;
    double r = z * (4.16666666666666019037e-02 +
                    z * (-1.38888888888741095749e-03 +
                         z * (2.48015872894767294178e-05 +
                              z * (-2.75573143513906633035e-07 +
                                   z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)))));
    if (magnitude < 0x3fd33333) /* |x| < 0.3 */
        return 1 - (0.5 * z - (z * r - x * y));
    double quarter = magnitude > 0x3fe90000 ? 0.28125 : with_high_word(0, magnitude - 0x00200000);
    return (1 - quarter) - ((0.5 * z - quarter) - (z * r - x * y));
}

double log10(double x)
{
    int32_t high = high_word(x);
    int k = 0;
    if (high < 0x00100000) {
        if ((bits_of(x) & 0x7fffffffffffffffu) == 0)
            return -INFINITY;
        if (high < 0)
            return NAN;
        k = -54;
        x *= 0x1p54;
        high = high_word(x);
    }
    if (high >= 0x7ff00000)
        return x + x;
    k += (high >> 20) - 1023;
    int below = k < 0;
    double y = k + below;
    x = with_high_word(x, (high & 0x000fffff) | ((0x3ff - below) << 20));
    double z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(x);
    return z + y * 3.01029995663611771306e-01;
}
