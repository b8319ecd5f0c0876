# SPDX-License-Identifier: Apache-2.0
# Makes a C string of each line, with a comma.
s/[\\"]/\\&/g
s/.*/"&\\n",/
