/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every environment variable of the library, once: X(ID, name, type, default, minimum, maximum,
 * choices or NULL, meaning). UINT and BOOL have a numeric default. The default of an ENUM is an
 * index into the choices ("a|b|c"); PROV_CHOICES has the names of provider/providers.h. LIST and
 * STR ignore the numbers: the default of a LIST is its first choice, and the default of a STR
 * stands in place of the choices.
 * The options of a variable follow it: OPTION(ID, ID of the variable, name, old name of the option
 * or NULL, and from the type on as in X). Users write options behind the variable's value:
 * VARIABLE=value,option=value,option=value. A variable of type OPTIONS has no value of its own. An
 * old name is a variable with the same meaning; if it is set, a warning is logged. A variable
 * without a meaning (NULL) is for tests: docs/reference/tests.md lists its options; utofu-info and
 * utofu-verbs(7) do not show them.
 * At the end stands OTHER(names, who): UTOFU_ variables of other software. Any other unknown UTOFU_
 * variable may be misspelt: if it differs from a known one by one or two letters, a warning is
 * logged.
 */
X(PROVIDER, "UTOFU_PROVIDER", ENUM, 0, 0, PROV_COUNT, "auto" PROV_CHOICES,
  "transport: shm between processes of a host, and to others verbs where an RDMA device is active, "
  "else ofi, in builds with libfabric (auto); or one of them for everything")
X(LOG_LEVEL, "UTOFU_LOG_LEVEL", ENUM, 2, 0, 4, "none|error|warning|info|debug",
  "least important message that is written to standard error")
OPTION(LOG_CATEGORY, LOG_LEVEL, "category", "UTOFU_LOG_CATEGORY", LIST, 0, 0, 0,
       "all|api|barrier|bootstrap|engine|link|ofi|process|record|runtime|shm|stag|stats|vcq|verbs",
       "categories whose info and debug messages are written")
X(RANK, "UTOFU_RANK", UINT, 0, 0, 16777215, NULL, "rank of this process in a job set up by hand")
X(SIZE, "UTOFU_SIZE", UINT, 1, 1, 16777216, NULL, "number of processes of a job set up by hand")
X(ROOT, "UTOFU_ROOT", STR, 0, 0, 0, "",
  "where the processes of a job set up by hand meet: host:port (rank 0 listens there), "
  "unix:@name[,nodes=K] (one machine; utofurun serves it; nodes=K distributes the ranks over K "
  "nodes), or an existing folder that all of them can write")
X(JOB_KEY, "UTOFU_JOB_KEY", KEY, 0, 0, 0, "",
  "key of a job set up by hand, the same for all its processes; host:port in UTOFU_ROOT needs one, "
  "here or in UTOFU_JOB_KEY_FILE; utofurun makes one; never shown")
X(JOB_KEY_FILE, "UTOFU_JOB_KEY_FILE", STR, 0, 0, 0, "",
  "file with the key where UTOFU_JOB_KEY is not set: of this user, and with mode 0600 or less")
X(NODE, "UTOFU_NODE", UINT, 0, 0, 16777215, NULL,
  "node number that this process says it is on, instead of its host's; without UTOFU_LOCAL_RANK it "
  "is the only process of that node")
X(LOCAL_RANK, "UTOFU_LOCAL_RANK", UINT, 0, 0, 65535, NULL,
  "rank of this process among the processes of its node")
X(LOCAL_SIZE, "UTOFU_LOCAL_SIZE", UINT, 1, 1, 65536, NULL, "number of processes of this node")
X(JOB_TIMEOUT, "UTOFU_JOB_TIMEOUT", UINT, 60, 1, 86400, NULL,
  "seconds to wait for the launcher or another process before giving up, also while the address of "
  "a peer cannot be resolved")
X(SHAPE, "UTOFU_SHAPE", STR, 0, 0, 0, "",
  "X, XxY or XxYxZ: how far the x, y and z coordinates of the nodes run; where the product is the "
  "number of the job's nodes, also the shape of the job that mpi-ext.h of utofu-compat gives")
X(CQ_MAP, "UTOFU_CQ_MAP", STR, 0, 0, 0, "auto",
  "which CQs of a TNI each local rank gets: auto, fugaku (as on Fugaku, for up to 48 processes a "
  "node, which share barrier gates, too), stride:N (N apart), or lists a,b,c/d,e,f/... one per "
  "local rank")
X(NUM_TOQ_ENTRIES, "UTOFU_NUM_TOQ_ENTRIES", UINT, 2048, 2048, 1048576, NULL,
  "entries of a transmit order queue; rounded up to a power of two")
X(NUM_EXCLUSIVE_CQS, "UTOFU_NUM_EXCLUSIVE_CQS", UINT, 0, 0, 1024, NULL,
  "CQs per TNI that are kept for exclusive VCQs, as far as there are enough")
X(NUM_SESSION_MODE_CQS, "UTOFU_NUM_SESSION_MODE_CQS", UINT, 3, 0, 1024, NULL,
  "CQs per TNI that are kept for session-mode VCQs, as far as there are enough")
X(NUM_MRQ_ENTRIES, "UTOFU_NUM_MRQ_ENTRIES", MRQ, 131072, 2048, 2097152,
  "2Ki|8Ki|32Ki|128Ki|512Ki|2Mi",
  "entries of the message receive queue of a free-mode VCQ; rounded to the "
  "nearest of the choices, upwards on a tie")
X(NUM_MRQ_ENTRIES_SESSION, "UTOFU_NUM_MRQ_ENTRIES_SESSION", MRQ, 131072, 2048, 2097152,
  "2Ki|8Ki|32Ki|128Ki|512Ki|2Mi", "the same for a session-mode VCQ")
X(SWAP_PROTECT, "UTOFU_SWAP_PROTECT", FLAG, 0, 0, 1, NULL,
  "1 locks registered memory (mlock), within RLIMIT_MEMLOCK; any value but 0 means 1")
X(ARMW, "UTOFU_ARMW", ENUM, 0, 0, 2, "cpu|nic|auto",
  "who executes atomic operations: the target's CPU, the network adapter, or the adapter where it "
  "is coherent with the CPU")
X(PEER_TIMEOUT, "UTOFU_PEER_TIMEOUT", UINT, 30, 1, 3600, NULL,
  "seconds after which a silent or unreachable peer is given up, until it is tried again")
X(AFTER_BREAK, "UTOFU_AFTER_BREAK", ENUM, 0, 0, 1, "repeat|report",
  "puts without a remote notice, and ARMW by the adapter, that were under way when a connection "
  "broke and may have been executed: repeat: again; report: not again, UTOFU_ERR_MRQ_OTHER")
X(PROGRESS_THREAD, "UTOFU_PROGRESS_THREAD", BOOL, 1, 0, 1, NULL,
  "0 runs without the background thread: incoming requests are then served only while the "
  "program calls the library")
X(SHM_CMA, "UTOFU_SHM_CMA", BOOL, 1, 0, 1, NULL,
  "0 makes the shm provider copy through its rings instead of cross-memory attach; "
  "1 also lets other processes of the user attach where kernel.yama.ptrace_scope is 1 "
  "(PR_SET_PTRACER_ANY)")
X(SHM_MAP, "UTOFU_SHM_MAP", ENUM, 1, 0, 2, "0|1|eager",
  "which registered memory becomes memory that the processes of a host map: what no thread of the "
  "program can be using at registration (1), all of it (eager: a system call of another thread "
  "that "
  "writes there meanwhile may fail with EFAULT), or none (0); else the kernel copies")
OPTION(SHM_MAP_LIMIT, SHM_MAP, "limit", "UTOFU_SHM_MAP_LIMIT", UINT, 1048576, 256, 67108864, NULL,
       "MiB of addresses that a process uses at most for mapped memory of its peers, in windows of "
       "256 "
       "MiB; each VCQ may have one window, also where that is more")
X(VERBS_DEVICES, "UTOFU_VERBS_DEVICES", STR, 0, 0, 0, "",
  "comma-separated RDMA devices to use, each name or name:port; empty: the active ports of one "
  "network, without those that have less than half the speed of the fastest")
X(VERBS_SUBNETS, "UTOFU_VERBS_SUBNETS", STR, 0, 0, 0, "",
  "comma-separated networks (10.1.0.0/16, fd00:1::/64) that a port's address must be in, the "
  "preferred one first; empty: any")
X(VERBS_CONNECT, "UTOFU_VERBS_CONNECT", ENUM, 0, 0, 2, "auto|rdmacm|ud",
  "how connections are made, the same in all processes of a job: rdmacm by librdmacm, which needs "
  "an IP address on each port; ud by datagrams, which do not; auto: rdmacm, or ud where a port "
  "that is used has no address, where InfiniBand ports of one fabric are in several IP networks, "
  "and in large jobs on InfiniBand")
OPTION(
    VERBS_GID_INDEX, VERBS_CONNECT, "gid_index", "UTOFU_VERBS_GID_INDEX", UINT, 65535, 0, 65535,
    NULL,
    "RoCE: index into the GID table of every port, whose address is used (the connection manager "
    "chooses among its entries by version); 65535: RoCE v2 first, IPv4 before IPv6")
OPTION(
    VERBS_UD_FROM, VERBS_CONNECT, "ud_from", NULL, UINT, 1024, 0, 16777216, NULL,
    "InfiniBand with auto: ud in a job of at least so many processes, as rdma_cm asks the subnet "
    "manager for the path of each connection; 0: whatever the size")
OPTION(
    VERBS_SL, VERBS_CONNECT, "sl", "UTOFU_VERBS_SL", UINT, 0, 0, 15, NULL,
    "InfiniBand: service level of connections that are made by datagrams (rdma_cm asks the subnet "
    "manager); where none is set it is 0 until a peer is silent, then what the subnet manager says")
OPTION(
    VERBS_PKEY, VERBS_CONNECT, "pkey", "UTOFU_VERBS_PKEY", UINT, 0, 0, 65535, NULL,
    "InfiniBand: partition (P_Key, as a decimal number) of connections that are made by datagrams; "
    "0: the first one that the port is a full member of")
OPTION(
    VERBS_TRAFFIC_CLASS, VERBS_CONNECT, "traffic_class", "UTOFU_VERBS_TRAFFIC_CLASS", UINT, 256, 0,
    256, NULL,
    "traffic class of connections, in both directions (RoCE v2: the IP header's, four times the "
    "DSCP; the adapter derives the priority from it); 256: the one the administrator gave rdma_cm")
X(VERBS_MAX_QPS, "UTOFU_VERBS_MAX_QPS", UINT, 0, 0, 16777215, NULL,
  "connections (queue pairs) that a process keeps on an adapter, at least 2, as far as the device "
  "has so many: for a new one the least recently used is closed, and opened again when it is used; "
  "0: what the device has, shared by the processes of the host")
X(VERBS_ORDER, "UTOFU_VERBS_ORDER", ENUM, 0, 0, 3, "auto|trust|safe|relaxed",
  "does the network place data in the order in which it was sent? auto asks the adapters at both "
  "ends; trust: yes; safe: no, not beyond words of 8 bytes, so that what STRONG_ORDER binds waits "
  "for a round trip; relaxed: no, and memory is registered with relaxed ordering of PCIe, which "
  "auto does only where the adapter has no other keys, or promises no order and the CPU is an AMD "
  "Zen. With all but trust local notices wait, too, where a host uses several ports")
X(VERBS_TUNE, "UTOFU_VERBS_TUNE", OPTIONS, 0, 0, 0, NULL,
  "sizes of the verbs provider, which adapts most of them to devices and traffic by itself")
OPTION(VERBS_SQ_DEPTH, VERBS_TUNE, "sq_depth", "UTOFU_VERBS_SQ_DEPTH", UINT, 127, 16, 16384, NULL,
       "send queue entries of a connection that was full again and again; others have half of it "
       "where "
       "it "
       "is 64 or more; devices round up, best is one less than a power of two")
OPTION(
    VERBS_SRQ_DEPTH, VERBS_TUNE, "srq_depth", "UTOFU_VERBS_SRQ_DEPTH", UINT, 1024, 64, 32768, NULL,
    "receive buffers that are kept posted for a VCQ at most; it begins with a quarter of them (128 "
    "at "
    "least), and has twice as many each time that half of them were used up at once")
OPTION(
    VERBS_RQ_DEPTH, VERBS_TUNE, "rq_depth", "UTOFU_VERBS_RQ_DEPTH", UINT, 80, 80, 16384, NULL,
    "receive buffers that are kept posted for a connection, on devices that have no shared receive "
    "queues")
OPTION(VERBS_INLINE, VERBS_TUNE, "inline", "UTOFU_VERBS_INLINE", UINT, 128, 0, 1024, NULL,
       "largest payload in bytes that is sent inline, as far as the device allows")
OPTION(VERBS_RD_ATOMIC, VERBS_TUNE, "rd_atomic", "UTOFU_VERBS_RD_ATOMIC", UINT, 16, 1, 128, NULL,
       "reads and atomics in flight on a connection, as far as the device allows")
OPTION(VERBS_MAX_CONNECTING, VERBS_TUNE, "max_connecting", "UTOFU_VERBS_MAX_CONNECTING", UINT, 32,
       1, 4096, NULL, "connection handshakes in flight at once")
OPTION(VERBS_NOTICE_APART, VERBS_TUNE, "notice_apart", "UTOFU_VERBS_NOTICE_APART", UINT, 65536, 0,
       16777215, NULL,
       "where data may be placed in any order: a put of at least so many bytes, more than a packet "
       "carries, has its remote notice in a request of its own, as adaptive routing does not serve "
       "data with a notice (WRITE WITH IMMEDIATE); puts with STRONG_ORDER excepted; 0: none")
OPTION(VERBS_RAILS, VERBS_TUNE, "rails", NULL, UINT, 262144, 0, UINT32_MAX, NULL,
       "a put of at least so many bytes goes in parts by all ports that the process and the target "
       "use, if they have VCQs on TNIs of one port only, and by all links of a bond; puts with "
       "STRONG_ORDER excepted; less than 8192 is 8192; 0: none")
X(OFI_PROVIDER, "UTOFU_OFI_PROVIDER", STR, 0, 0, 0, "",
  "provider of libfabric to use, as in FI_PROVIDER (tcp, verbs, efa...); empty: the first that "
  "will "
  "do")
OPTION(OFI_RMA, OFI_PROVIDER, "rma", "UTOFU_OFI_RMA", UINT, 16384, 0, UINT32_MAX, NULL,
       "puts of at least so many bytes, and of more than a message carries, are placed by the RMA "
       "writes "
       "of libfabric's fabric, where it has them; gets, and puts with STRONG_ORDER, are fetched by "
       "its "
       "RMA reads; 0: none are")
X(OFI_DOMAIN, "UTOFU_OFI_DOMAIN", STR, 0, 0, 0, "",
  "domain of libfabric to use, as fi_info lists them (eth0, mlx5_0...); empty: the first one")
X(SHUFFLE, "UTOFU_SHUFFLE", UINT, 0, 0, UINT32_MAX, NULL,
  "finds errors of a program: uses, in an order that this number decides, what the uTofu manual "
  "leaves open: puts and gets overtake each other and land in pieces, completions and notices come "
  "late, the TOQ is small; much slower; 0: off")
OPTION(
    SHUFFLE_LEVEL, SHUFFLE, "level", "UTOFU_SHUFFLE_LEVEL", UINT, 3, 1, 4, NULL,
    "how far the shuffling goes: 1: only the order in memory, with delays of up to 20 us each; 2: "
    "also late completions, notices and messages, with up to 200 us; 3: also a TOQ of 8 to 64 "
    "entries, and DELAY_START without effect now and then; 4: as 3, with up to 2 ms")
X(CHECK, "UTOFU_CHECK", ENUM, 0, 0, 2, "0|1|abort",
  "reports, on standard error and once for each place, what a program does that the uTofu manual "
  "forbids or leaves undefined, as a source that is written while a put is under way; abort: ends "
  "it "
  "at the first one; slower")
X(STATS, "UTOFU_STATS", ENUM, 0, 0, 3, "0|1|job|job,json",
  "1 prints at exit, and on SIGUSR1, what each VCQ did with each of its peers; job sums up all "
  "processes at the end, as text or JSON: least, mean and most of each counter, and whose they are")
OPTION(STATS_FILE, STATS, "file", "UTOFU_STATS_FILE", STR, 0, 0, 0, "",
       "file that rank 0 writes the summary of job to, instead of standard error")
X(TRACE, "UTOFU_TRACE", STR, 0, 0, 0, "",
  "file for a timeline of this process; the rank is put before its extension (trace.json becomes "
  "trace.0.json); utofu-trace merges those of a job")
OPTION(TRACE_LIMIT, TRACE, "limit", "UTOFU_TRACE_LIMIT", UINT, 256, 0, 1048576, NULL,
       "MiB that the timeline of a process may take; 0: as much as there is")
OPTION(TRACE_RECORD, TRACE, "record", NULL, BOOL, 0, 0, 1, NULL,
       "1 writes a recording of what each thread calls instead of a timeline, for utofu-model")
X(DUMP_SIGNAL, "UTOFU_DUMP_SIGNAL", ENUM, 0, 0, 4, "none|HUP|QUIT|USR1|USR2",
  "signal on which a process writes what every VCQ, link and barrier gate waits for, for programs "
  "that hang; none: no signal handler is installed; on USR1 UTOFU_STATS=1 prints its counters, too")
X(TEST, "UTOFU_TEST", OPTIONS, 0, 0, 0, NULL, NULL)
OPTION(SHM_MAP_REFUSE, TEST, "map_refuse", "UTOFU_SHM_MAP_REFUSE", UINT, 0, 0, 1000000, NULL,
       "every n-th region is not mapped; 0 refuses none")
OPTION(SHM_EXCHANGE_MS, TEST, "exchange_ms", NULL, UINT, 0, 0, 10000, NULL,
       "exchanging pages of registered memory takes that many milliseconds more")
OPTION(VERBS_WR_API, TEST, "wr_api", "UTOFU_VERBS_WR_API", BOOL, 1, 0, 1, NULL,
       "0 posts lists of requests, as with devices that have no ibv_wr_start()")
OPTION(VERBS_SRQ, TEST, "srq", "UTOFU_VERBS_SRQ", BOOL, 1, 0, 1, NULL,
       "0 gives each connection a receive queue of its own, as with devices that have no "
       "shared ones")
OTHER("UTOFU_DIR|UTOFU_HOME|UTOFU_PREFIX|UTOFU_PATH|UTOFU_INC|UTOFU_INCLUDE|UTOFU_INCLUDE_DIR|"
      "UTOFU_LIB|UTOFU_LIBDIR|UTOFU_LIBRARY|UTOFU_VERSION|UTOFU_VERBS_DIR|UTOFU_VERBS_HOME|"
      "UTOFU_VERBS_PREFIX|UTOFU_VERBS_PATH|UTOFU_VERBS_ROOT|UTOFU_VERBS_INC|UTOFU_VERBS_INCLUDE|"
      "UTOFU_VERBS_LIB|UTOFU_VERBS_LIBDIR|UTOFU_VERBS_VERSION",
      "module files and package managers, which say so where the library is")
