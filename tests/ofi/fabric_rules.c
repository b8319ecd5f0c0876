/* SPDX-License-Identifier: Apache-2.0 */
#include "played.h"
int main(void){open_all();close_all();return 0;}
