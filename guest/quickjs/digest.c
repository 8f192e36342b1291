/* Message digests of FIPS 180-4 and RFC 1321, for node's createHash and createHmac.
 *
 * The round constants are computed while the image is built (they are the fractional parts of roots of primes, and of
 * sines), so no table is typed in; the vectors of crates/wasm/tests/digest.rs prove them.
 */
#include "shim.h"

#include <math.h>
#include <string.h>

static inline uint32_t rotl32(uint32_t x, int n) { return x << n | x >> (32 - n); }
static inline uint32_t rotr32(uint32_t x, int n) { return x >> n | x << (32 - n); }
static inline uint64_t rotr64(uint64_t x, int n) { return x >> n | x << (64 - n); }

static uint64_t sha2_rounds[80]; /* SHA-256 uses the upper halves of the first 64 */
static uint64_t sha2_starts[16];
static uint32_t md5_sines[64];

/* The first 64 bits after the point of the `root`-th root of `p` (2 or 3), found bit by bit with whole numbers:
 * the largest x with x^root <= p * 2^(64 * root). */
static uint64_t root_fraction(uint32_t p, int root)
{
    uint32_t whole = 1;
    while ((root == 2 ? (whole + 1) * (whole + 1) : (whole + 1) * (whole + 1) * (whole + 1)) <= p)
        whole++;
    /* Numbers as 32-bit limbs, least significant first. */
    uint64_t fraction = 0;
    for (int bit = 63; bit >= 0; bit--) {
        uint64_t tried = fraction | (uint64_t)1 << bit;
        uint32_t x[3] = { (uint32_t)tried, (uint32_t)(tried >> 32), (uint32_t)whole };
        uint32_t power[9] = { 1 };
        for (int times = 0; times < root; times++) {
            uint32_t product[9] = { 0 };
            for (int i = 0; i < 3; i++) {
                uint64_t carry = 0;
                for (int j = 0; i + j < 9; j++) {
                    carry += (uint64_t)x[i] * power[j] + product[i + j];
                    product[i + j] = (uint32_t)carry;
                    carry >>= 32;
                }
            }
            memcpy(power, product, sizeof power);
        }
        /* Compare with p * 2^(64 * root): limb 2 * root holds p, everything above must be zero. */
        bool above = false;
        for (int i = 2 * root + 1; i < 9; i++)
            above |= power[i] != 0;
        /* p is prime, so the power is never exactly p. */
        if (!above && power[2 * root] < p)
            fraction = tried;
    }
    return fraction;
}

static uint32_t nth_prime(int n)
{
    for (uint32_t p = 2;; p++) {
        bool prime = true;
        for (uint32_t d = 2; d * d <= p; d++)
            prime &= p % d != 0;
        if (prime && n-- == 0)
            return p;
    }
}

__attribute__((constructor)) static void fill_tables(void)
{
    for (int i = 0; i < 80; i++)
        sha2_rounds[i] = root_fraction(nth_prime(i), 3);
    for (int i = 0; i < 16; i++)
        sha2_starts[i] = root_fraction(nth_prime(i), 2);
    for (int i = 0; i < 64; i++)
        md5_sines[i] = (uint32_t)(fabs(sin(i + 1.0)) * 4294967296.0);
}

static uint32_t load_be32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static uint32_t load_le32(const uint8_t *p) { return (uint32_t)p[3] << 24 | p[2] << 16 | p[1] << 8 | p[0]; }
static uint64_t load_be64(const uint8_t *p) { return (uint64_t)load_be32(p) << 32 | load_be32(p + 4); }

static void md5_block(uint64_t *state, const uint8_t *block)
{
    static const uint8_t shifts[4][4] = { { 7, 12, 17, 22 }, { 5, 9, 14, 20 }, { 4, 11, 16, 23 }, { 6, 10, 15, 21 } };
    static const uint8_t steps[4][2] = { { 1, 0 }, { 5, 1 }, { 3, 5 }, { 7, 0 } };
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 64; i++) {
        int round = i / 16;
        uint32_t f = round == 0 ? (b & c) | (~b & d) : round == 1 ? (d & b) | (~d & c) : round == 2 ? b ^ c ^ d : c ^ (b | ~d);
        uint32_t word = load_le32(block + 4 * ((steps[round][0] * i + steps[round][1]) % 16));
        uint32_t next = b + rotl32(a + f + md5_sines[i] + word, shifts[round][i % 4]);
        a = d;
        d = c;
        c = b;
        b = next;
    }
    uint32_t out[4] = { a, b, c, d };
    for (int i = 0; i < 4; i++)
        state[i] = (uint32_t)(state[i] + out[i]);
}

static void sha1_block(uint64_t *state, const uint8_t *block)
{
    static const uint32_t constants[4] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
    uint32_t w[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int i = 0; i < 80; i++) {
        w[i] = i < 16 ? load_be32(block + 4 * i) : rotl32(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        int round = i / 20;
        uint32_t f = round == 0 ? (b & c) | (~b & d) : round == 2 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        uint32_t next = rotl32(a, 5) + f + e + constants[round] + w[i];
        e = d;
        d = c;
        c = rotl32(b, 30);
        b = a;
        a = next;
    }
    uint32_t out[5] = { a, b, c, d, e };
    for (int i = 0; i < 5; i++)
        state[i] = (uint32_t)(state[i] + out[i]);
}

static void sha256_block(uint64_t *state, const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 8; i++)
        v[i] = (uint32_t)state[i];
    for (int i = 0; i < 64; i++) {
        if (i < 16) {
            w[i] = load_be32(block + 4 * i);
        } else {
            uint32_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr32(x, 7) ^ rotr32(x, 18) ^ x >> 3) + (rotr32(y, 17) ^ rotr32(y, 19) ^ y >> 10);
        }
        uint32_t t1 = v[7] + (rotr32(v[4], 6) ^ rotr32(v[4], 11) ^ rotr32(v[4], 25)) + ((v[4] & v[5]) ^ (~v[4] & v[6]))
                      + (uint32_t)(sha2_rounds[i] >> 32) + w[i];
        uint32_t t2 = (rotr32(v[0], 2) ^ rotr32(v[0], 13) ^ rotr32(v[0], 22)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] = (uint32_t)(state[i] + v[i]);
}

static void sha512_block(uint64_t *state, const uint8_t *block)
{
    uint64_t w[80], v[8];
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 80; i++) {
        if (i < 16) {
            w[i] = load_be64(block + 8 * i);
        } else {
            uint64_t x = w[i - 15], y = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotr64(x, 1) ^ rotr64(x, 8) ^ x >> 7) + (rotr64(y, 19) ^ rotr64(y, 61) ^ y >> 6);
        }
        uint64_t t1 = v[7] + (rotr64(v[4], 14) ^ rotr64(v[4], 18) ^ rotr64(v[4], 41)) + ((v[4] & v[5]) ^ (~v[4] & v[6]))
                      + sha2_rounds[i] + w[i];
        uint64_t t2 = (rotr64(v[0], 28) ^ rotr64(v[0], 34) ^ rotr64(v[0], 39)) + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

typedef struct Algorithm {
    const char *name;
    void (*block)(uint64_t *state, const uint8_t *block);
    uint8_t block_size, digest_size, word_size;
    bool little_endian;
} Algorithm;

static const Algorithm algorithms[] = {
    { "md5", md5_block, 64, 16, 4, true },
    { "sha1", sha1_block, 64, 20, 4, false },
    { "sha224", sha256_block, 64, 28, 4, false },
    { "sha256", sha256_block, 64, 32, 4, false },
    { "sha384", sha512_block, 128, 48, 8, false },
    { "sha512", sha512_block, 128, 64, 8, false },
};

static void first_state(const Algorithm *algorithm, uint64_t *state)
{
    if (algorithm->block == md5_block || algorithm->block == sha1_block) {
        static const uint32_t counting[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
        for (int i = 0; i < 5; i++)
            state[i] = counting[i];
        return;
    }
    /* SHA-256 and SHA-512 begin with square roots of the first eight primes, SHA-384 with those of the next eight, SHA-224
     * with the lower halves of SHA-384's. */
    bool next = algorithm->digest_size == 28 || algorithm->digest_size == 48;
    for (int i = 0; i < 8; i++) {
        uint64_t root = sha2_starts[next ? i + 8 : i];
        state[i] = algorithm->digest_size == 32 ? root >> 32 : algorithm->digest_size == 28 ? (uint32_t)root : root;
    }
}

size_t plimsoll_digest(const char *name, const uint8_t *data, size_t length, uint8_t *out)
{
    const Algorithm *algorithm = NULL;
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (strcmp(algorithms[i].name, name) == 0)
            algorithm = &algorithms[i];
    }
    if (!algorithm)
        return 0;
    uint64_t state[8] = { 0 };
    size_t size = algorithm->block_size, left = length;
    first_state(algorithm, state);
    for (; left >= size; left -= size, data += size)
        algorithm->block(state, data);

    /* The tail: a one bit, zeros, the length in bits; two blocks when the length does not fit behind the data. */
    uint8_t tail[256] = { 0 };
    size_t length_size = size / 8;
    size_t tail_size = left + 1 + length_size <= size ? size : 2 * size;
    uint64_t bits = (uint64_t)length * 8;
    memcpy(tail, data, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++) {
        if (algorithm->little_endian)
            tail[tail_size - 8 + i] = (uint8_t)(bits >> (8 * i));
        else
            tail[tail_size - 1 - i] = (uint8_t)(bits >> (8 * i));
    }
    for (size_t at = 0; at < tail_size; at += size)
        algorithm->block(state, tail + at);

    for (size_t i = 0; i < algorithm->digest_size; i++) {
        size_t word = i / algorithm->word_size, byte = i % algorithm->word_size;
        size_t shift = algorithm->little_endian ? byte : algorithm->word_size - 1 - byte;
        out[i] = (uint8_t)(state[word] >> (8 * shift));
    }
    return algorithm->digest_size;
}
