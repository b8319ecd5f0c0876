/* SPDX-License-Identifier: Apache-2.0 */
#include "seal.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "util/log.h"
#include "util/sha256.h"

bool fp_draw(void *bytes, size_t size)
{
    if (getrandom(bytes, size, 0) == (ssize_t)size)
        return true;
    ut_error(FP_CAT, "the system gives no random numbers: %s", strerror(errno));
    return false;
}

static void make_tag(const struct fp_note *note, const uint8_t key[FP_KEY_SIZE],
                     uint8_t tag[UT_SHA256_SIZE])
{
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, key, FP_KEY_SIZE);
    ut_hmac_add(&hmac, "note", 4);
    ut_hmac_add(&hmac, note, offsetof(struct fp_note, tag));
    ut_hmac_end(&hmac, tag);
}

void fp_seal(struct fp_note *note, const uint8_t key[FP_KEY_SIZE])
{
    uint8_t tag[UT_SHA256_SIZE];

    make_tag(note, key, tag);
    memcpy(note->tag, tag, FP_TAG_SIZE);
}

bool fp_is_sealed(const struct fp_note *note, const uint8_t key[FP_KEY_SIZE])
{
    uint8_t tag[UT_SHA256_SIZE];

    make_tag(note, key, tag);
    return ut_same_bytes(note->tag, tag, FP_TAG_SIZE);
}

struct fp_secrets fp_secrets_of(const uint8_t key[FP_KEY_SIZE], const uint8_t askers[FP_NONCE_SIZE],
                                const uint8_t askeds[FP_NONCE_SIZE])
{
    uint8_t both[UT_SHA256_SIZE];
    struct fp_secrets secrets;
    struct ut_hmac hmac;

    ut_hmac_init(&hmac, key, FP_KEY_SIZE);
    ut_hmac_add(&hmac, "conn", 4);
    ut_hmac_add(&hmac, askers, FP_NONCE_SIZE);
    ut_hmac_add(&hmac, askeds, FP_NONCE_SIZE);
    ut_hmac_end(&hmac, both);
    memcpy(&secrets.to_asker, both, sizeof(secrets.to_asker));
    memcpy(&secrets.to_asked, both + sizeof(secrets.to_asker), sizeof(secrets.to_asked));
    return secrets;
}
