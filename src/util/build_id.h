/* SPDX-License-Identifier: Apache-2.0 */
/* The version and the commit of this build. */
#ifndef UT_UTIL_BUILD_ID_H
#define UT_UTIL_BUILD_ID_H

/* "1.0.0 (2821ec2f0a1b)": version and commit. */
extern const char ut_build_id[];

/* The note's owner and type, from systemd's "Package Metadata for Executable Files". */
#define UT_BUILD_NOTE_OWNER "FDO"
#define UT_BUILD_NOTE_TYPE  0xcafe1a7eu
#define UT_BUILD_NOTE_KEY   "\"name\":\"utofu-verbs\",\"version\":\""

#endif
