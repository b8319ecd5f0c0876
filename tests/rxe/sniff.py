#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sniff.py NETWORK CLASS UNTIL: reads the RoCE v2 packets of reliable connections received on eth0
until the file UNTIL exists. Exit status 1 unless there were some, all between addresses that
begin with NETWORK and of traffic class CLASS."""
import collections
import os
import socket
import struct
import sys

IP, ROCE_V2, UDP, GENERAL_SERVICES_QP = 0x0800, 4791, 17, 1
network, wanted, until = sys.argv[1], int(sys.argv[2]), sys.argv[3]
seen = collections.Counter()
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(IP))
sniffer.bind(("eth0", IP))
sniffer.settimeout(0.2)
while not os.path.exists(until):
    try:
        packet = sniffer.recv(65536)
    except TimeoutError:
        continue
    header = (packet[0] & 15) * 4
    if packet[9] != UDP or struct.unpack_from("!H", packet, header + 2)[0] != ROCE_V2:
        continue
    if int.from_bytes(packet[header + 13:header + 16], "big") == GENERAL_SERVICES_QP:
        continue
    ours = all(socket.inet_ntoa(packet[at:at + 4]).startswith(network) for at in (12, 16))
    seen[(ours, packet[1])] += 1
print(f"packets by (between addresses of {network}, traffic class): {dict(seen)}", flush=True)
sys.exit(set(seen) != {(True, wanted)})
