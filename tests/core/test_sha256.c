/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 and HMAC: the examples of FIPS 180-4 and the cases of RFC 4231 without truncation. */
#include "util/sha256.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *hex(const uint8_t digest[UT_SHA256_SIZE])
{
    static char text[2 * UT_SHA256_SIZE + 1];

    for (size_t i = 0; i < UT_SHA256_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

/* In pieces of this size, which must not affect the result. */
static const char *sha256(const char *data, size_t size, size_t piece)
{
    uint8_t digest[UT_SHA256_SIZE];
    struct ut_sha256 sha;

    ut_sha256_init(&sha);
    for (size_t at = 0; at < size; at += piece)
        ut_sha256_add(&sha, data + at, piece < size - at ? piece : size - at);
    ut_sha256_end(&sha, digest);
    return hex(digest);
}

Test(sha256, examples_of_the_standard)
{
    static const struct {
        const char *text, *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
         "lmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        const char *text = examples[i].text;
        cr_assert_str_eq(sha256(text, strlen(text), 200), examples[i].digest, "'%s'", text);
        cr_assert_str_eq(sha256(text, strlen(text), 1), examples[i].digest, "'%s'", text);
    }
}

Test(sha256, a_million_letters)
{
    enum { MILLION = 1000000 };
    char *text = malloc(MILLION);

    cr_assert_not_null(text);
    memset(text, 'a', MILLION);
    cr_assert_str_eq(sha256(text, MILLION, 977),
                     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

static const char *hmac(const void *key, size_t key_size, const void *data, size_t size)
{
    uint8_t mac[UT_SHA256_SIZE];
    struct ut_hmac h;

    ut_hmac_init(&h, key, key_size);
    ut_hmac_add(&h, data, size / 2);
    ut_hmac_add(&h, (const uint8_t *)data + size / 2, size - size / 2);
    ut_hmac_end(&h, mac);
    return hex(mac);
}

Test(sha256, hmac_of_texts)
{
    static const char large_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char both[] =
        "This is a test using a larger than block-size key and a larger than block-size data. The "
        "key needs to be hashed before being used by the HMAC algorithm.";
    uint8_t key[131];

    memset(key, 0x0b, 20);
    cr_assert_str_eq(hmac(key, 20, "Hi There", 8),
                     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    cr_assert_str_eq(hmac("Jefe", 4, "what do ya want for nothing?", 28),
                     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    cr_assert_str_eq(hmac(key, sizeof(key), large_key, strlen(large_key)),
                     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    cr_assert_str_eq(hmac(key, sizeof(key), both, strlen(both)),
                     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

Test(sha256, hmac_of_bytes)
{
    uint8_t key[25], data[50];

    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    cr_assert_str_eq(hmac(key, 20, data, sizeof(data)),
                     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, sizeof(data));
    cr_assert_str_eq(hmac(key, sizeof(key), data, sizeof(data)),
                     "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

Test(sha256, bytes_that_differ_anywhere_are_not_the_same)
{
    uint8_t a[UT_SHA256_SIZE] = {1}, b[UT_SHA256_SIZE] = {1};

    cr_assert(ut_same_bytes(a, b, sizeof(a)));
    for (size_t i = 0; i < sizeof(a); i++) {
        b[i] ^= 0x80;
        cr_assert_not(ut_same_bytes(a, b, sizeof(a)), "byte %zu", i);
        b[i] ^= 0x80;
    }
    cr_assert(ut_same_bytes(a, b, 0));
}
