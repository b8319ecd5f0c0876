/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp ROUNDS SIZE... [WAY...]
 *
 * Ping-pongs between the two processes of a job by TCP, in turn, in each round: by the sockets of
 * the kernel, whose receivers call recv() until all is there, or epoll_wait() before each recv() as
 * libfabric does; by libfabric, with the messages that provider ofi sends for a put with a notice;
 * and by such puts. One line for each round: what, bytes, the median of half a round trip in
 * microseconds. WAY: only those whose names begin so, as in "put". UTOFU_OFI_PROVIDER and
 * UTOFU_OFI_DOMAIN choose the fabric. Compiled with WITH_MPI: MPI_Send and MPI_Recv. bench/tcp runs
 * all of these and prints one table.
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#include "measure.h"

enum { LEAST_TIMES = 50, MOST_TIMES = 1000, WARM_UP = 10, BYTES_IN_ROUND = 100 << 20 };
enum { MAX_SIZE = 16 << 20 };

static float samples[MOST_TIMES];
static uint8_t *to_send, *to_receive; /* MAX_SIZE bytes */

/* Sends `size` bytes to the other process; receives as many. */
struct way {
    const char *name;
    void (*send)(size_t size);
    void (*receive)(size_t size);
};

static void ping_pong(const struct way *way, int rank, size_t size)
{
    size_t times = BYTES_IN_ROUND / size;

    times = times < LEAST_TIMES ? LEAST_TIMES : times > MOST_TIMES ? MOST_TIMES : times;
    for (size_t i = 0; i < WARM_UP + times; i++) {
        double begin = bench_now();
        if (rank == 0)
            way->send(size);
        way->receive(size);
        if (rank == 1)
            way->send(size);
        if (i >= WARM_UP)
            samples[i - WARM_UP] = (float)((bench_now() - begin) / 2);
    }
    if (rank != 0)
        return;
    qsort(samples, times, sizeof(*samples), bench_compare);
    printf("%s\t%zu\t%.3f\n", way->name, size, bench_percentile(samples, times, 0.5));
    fflush(stdout);
}

/* Without names all are. */
static bool is_wanted(const struct way *way, int num_names, char **names)
{
    for (int i = 0; i < num_names; i++) {
        if (strncmp(way->name, names[i], strlen(names[i])) == 0)
            return true;
    }
    return num_names == 0;
}

static void measure_ways(const struct way *ways, int num, int rank, int argc, char **argv)
{
    long rounds = bench_number("tcp", argc > 1 ? argv[1] : "", 1, 100000);
    int sizes = 2;

    while (sizes < argc && strchr("123456789", argv[sizes][0]))
        sizes++;
    for (long round = 0; round < rounds; round++)
        for (int a = 2; a < sizes; a++)
            for (int w = 0; w < num; w++) {
                if (is_wanted(&ways[w], argc - sizes, argv + sizes))
                    ping_pong(&ways[w], rank, (size_t)bench_number("tcp", argv[a], 1, MAX_SIZE));
            }
}

/* Each process keeps to one CPU, as below MPI. */
static void bind_to_cpu(int rank)
{
    cpu_set_t all, one;

    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all) && rank-- == 0)
            CPU_SET(cpu, &one);
    }
    sched_setaffinity(0, sizeof(one), &one);
}

#ifdef WITH_MPI
#    include <mpi.h>

static int other;

static void send_mpi(size_t size)
{
    MPI_Send(to_send, (int)size, MPI_BYTE, other, 0, MPI_COMM_WORLD);
}

static void receive_mpi(size_t size)
{
    MPI_Recv(to_receive, (int)size, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static const struct way mpi = {"MPI", send_mpi, receive_mpi};
    int rank, size;

    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    other = !rank;
    bind_to_cpu(rank);
    to_send = calloc(2, MAX_SIZE);
    if (!to_send || size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(to_send, 1, 2 * (size_t)MAX_SIZE);
    to_receive = to_send + MAX_SIZE;
    measure_ways(&mpi, 1, rank, argc, argv);
    MPI_Finalize();
    free(to_send);
    return 0;
}
#else
#    include <arpa/inet.h>
#    include <netinet/tcp.h>
#    include <rdma/fabric.h>
#    include <rdma/fi_cm.h>
#    include <rdma/fi_domain.h>
#    include <rdma/fi_endpoint.h>
#    include <rdma/fi_rma.h>
#    include <sys/epoll.h>
#    include <sys/mman.h>
#    include <unistd.h>

#    include "party.h"

enum { OFI_HEAD = 56, OFI_PIECE = 8192, OFI_RMA = 16384, OFI_LINE = 256 }; /* of provider ofi */
enum { RECEIVES = 64, NAME_MAX_SIZE = 128, MESSAGE = OFI_HEAD + OFI_PIECE };

/* What the two tell each other. */
struct introduction {
    struct sockaddr_in listens;
    uint8_t name[NAME_MAX_SIZE];
    uint64_t fabric_key, fabric_at;
    utofu_vcq_id_t vcq;
    utofu_stadd_t stadd;
};

static struct introduction mine, both[2];

/*
 * Sockets
 */

static int polled, watched, watch = -1, listener = -1;

static void check_errno(bool holds, const char *what)
{
    if (!holds)
        party_fail(1, "%s: %s", what, strerror(errno));
}

static void send_by(int fd, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, to_send + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        check_errno(n > 0 || errno == EAGAIN, "send");
        done += n > 0 ? (size_t)n : 0;
    }
}

static size_t receive_some(int fd, size_t done, size_t size)
{
    ssize_t n = recv(fd, to_receive + done, size - done, MSG_DONTWAIT);

    check_errno(n > 0 || (n < 0 && errno == EAGAIN), "recv");
    return n > 0 ? (size_t)n : 0;
}

static void send_polled(size_t size)
{
    send_by(polled, size);
}

static void receive_polled(size_t size)
{
    for (size_t done = 0; done < size;)
        done += receive_some(polled, done, size);
}

static void send_watched(size_t size)
{
    send_by(watched, size);
}

static void receive_watched(size_t size)
{
    struct epoll_event event;

    for (size_t done = 0; done < size;) {
        if (epoll_wait(watch, &event, 1, 0) == 1)
            done += receive_some(watched, done, size);
    }
}

static void listen_for_sockets(void)
{
    socklen_t length = sizeof(mine.listens);

    mine.listens =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    check_errno(listener >= 0 && bind(listener, (struct sockaddr *)&mine.listens, length) == 0 &&
                    listen(listener, 2) == 0 &&
                    getsockname(listener, (struct sockaddr *)&mine.listens, &length) == 0,
                "a socket");
}

/* Rank 1 connects. */
static int pair_socket(void)
{
    int fd = party.rank == 0 ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;

    if (party.rank == 1)
        check_errno(connect(fd, (struct sockaddr *)&both[0].listens, sizeof(mine.listens)) == 0,
                    "connect");
    check_errno(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0,
                "a connection");
    return fd;
}

static void pair_sockets(void)
{
    struct epoll_event event = {.events = EPOLLIN};

    polled = pair_socket();
    watched = pair_socket();
    watch = epoll_create1(0);
    check_errno(watch >= 0 && epoll_ctl(watch, EPOLL_CTL_ADD, watched, &event) == 0, "epoll");
}

/*
 * libfabric
 */

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_mr *mr;
static fi_addr_t peer;
static uint8_t *receives;   /* RECEIVES of MESSAGE bytes */
static size_t num_received; /* messages, not yet taken */
static size_t num_under_way;
static uint8_t message[MESSAGE];

static void check_fabric(long rc, const char *what)
{
    if (rc < 0)
        party_fail(1, "libfabric: %s: %s", what, fi_strerror((int)-rc));
}

static void choose_fabric(void)
{
    const char *provider = getenv("UTOFU_OFI_PROVIDER"), *on = getenv("UTOFU_OFI_DOMAIN");
    struct fi_info *hints = fi_allocinfo();

    check_errno(hints != NULL, "memory");
    hints->caps = FI_MSG | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_SAW;
    hints->fabric_attr->prov_name = strdup(provider ? provider : "net");
    hints->domain_attr->name = strdup(on ? on : "lo");
    check_fabric(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info), "no such fabric");
    fi_freeinfo(hints);
}

static void post_receive(void *at)
{
    check_fabric(fi_recv(ep, at, MESSAGE, NULL, FI_ADDR_UNSPEC, at), "fi_recv");
}

static void open_fabric(void)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {0};
    size_t length = NAME_MAX_SIZE;

    choose_fabric();
    check_fabric(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    check_fabric(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    check_fabric(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
    check_fabric(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
    check_fabric(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
    check_fabric(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check_fabric(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    check_fabric(fi_enable(ep), "fi_enable");
    check_fabric(fi_getname(&ep->fid, mine.name, &length), "fi_getname");
    check_fabric(
        fi_mr_reg(domain, to_receive, MAX_SIZE, FI_REMOTE_WRITE, 0, 1 + party.rank, 0, &mr, NULL),
        "fi_mr_reg");
    mine.fabric_key = fi_mr_key(mr);
    mine.fabric_at =
        info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)to_receive : 0;
    receives = calloc(RECEIVES, MESSAGE);
    check_errno(receives != NULL, "memory");
    for (size_t i = 0; i < RECEIVES; i++)
        post_receive(receives + i * MESSAGE);
}

static void close_fabric(void)
{
    check_fabric(fi_close(&ep->fid), "fi_close");
    check_fabric(fi_close(&mr->fid), "fi_close");
    check_fabric(fi_close(&av->fid), "fi_close");
    check_fabric(fi_close(&cq->fid), "fi_close");
    check_fabric(fi_close(&domain->fid), "fi_close");
    check_fabric(fi_close(&fabric->fid), "fi_close");
    fi_freeinfo(info);
    free(receives);
}

static void poll_fabric(void)
{
    struct fi_cq_msg_entry entries[16];
    ssize_t n = fi_cq_read(cq, entries, 16);

    check_fabric(n == -FI_EAGAIN ? 0 : n, "fi_cq_read");
    for (ssize_t i = 0; i < n; i++) {
        if (entries[i].flags & FI_RECV) {
            num_received++;
            post_receive(entries[i].op_context);
        } else {
            num_under_way--;
        }
    }
}

static void send_message(size_t size)
{
    long rc;

    memcpy(message + OFI_HEAD, to_send, size);
    do {
        rc = size + OFI_HEAD <= info->tx_attr->inject_size
                 ? fi_inject(ep, message, size + OFI_HEAD, peer)
                 : fi_send(ep, message, size + OFI_HEAD, NULL, peer, NULL);
        if (rc == -FI_EAGAIN)
            poll_fabric();
    } while (rc == -FI_EAGAIN);
    check_fabric(rc, "sending");
    num_under_way += size + OFI_HEAD > info->tx_attr->inject_size;
}

static void write_to_peer(size_t size)
{
    struct iovec from = {to_send, size};
    struct fi_rma_iov to = {both[!party.rank].fabric_at, size, both[!party.rank].fabric_key};
    struct fi_msg_rma m = {
        .msg_iov = &from, .iov_count = 1, .addr = peer, .rma_iov = &to, .rma_iov_count = 1};
    long rc;

    while ((rc = fi_writemsg(ep, &m, FI_COMPLETION)) == -FI_EAGAIN)
        poll_fabric();
    check_fabric(rc, "fi_writemsg");
    num_under_way++;
}

static void send_fabric(size_t size)
{
    while (num_under_way > 0) /* of the last one, from the same memory */
        poll_fabric();
    if (size >= OFI_RMA) {
        write_to_peer(size - OFI_LINE);
        send_message(OFI_LINE);
        return;
    }
    for (size_t done = 0; done < size; done += OFI_PIECE)
        send_message(size - done < OFI_PIECE ? size - done : OFI_PIECE);
}

static void receive_fabric(size_t size)
{
    size_t messages = size >= OFI_RMA ? 1 : (size + OFI_PIECE - 1) / OFI_PIECE;

    while (num_received < messages)
        poll_fabric();
    num_received -= messages;
}

/*
 * Puts
 */

static utofu_vcq_hdl_t vcq;
static utofu_stadd_t source;

static void open_vcq(void)
{
    party_check(utofu_create_vcq(0, 0, &vcq), "utofu_create_vcq");
    party_check(utofu_query_vcq_id(vcq, &mine.vcq), "utofu_query_vcq_id");
    party_check(utofu_reg_mem(vcq, to_send, MAX_SIZE, 0, &source), "utofu_reg_mem");
    party_check(utofu_reg_mem(vcq, to_receive, MAX_SIZE, 0, &mine.stadd), "utofu_reg_mem");
}

static void close_vcq(void)
{
    party_check(utofu_dereg_mem(vcq, source, 0), "utofu_dereg_mem");
    party_check(utofu_dereg_mem(vcq, mine.stadd, 0), "utofu_dereg_mem");
    party_check(utofu_free_vcq(vcq), "utofu_free_vcq");
}

static void send_put(size_t size)
{
    const struct introduction *to = &both[!party.rank];
    void *data;
    int rc;

    while ((rc = utofu_put(vcq, to->vcq, source, to->stadd, size, 0,
                           UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, NULL)) == UTOFU_ERR_BUSY) {
        rc = utofu_poll_tcq(vcq, 0, &data);
        if (rc != UTOFU_ERR_NOT_FOUND)
            party_check(rc, "utofu_poll_tcq");
    }
    party_check(rc, "utofu_put");
}

static void receive_put(size_t size)
{
    struct utofu_mrq_notice notice;
    int rc;

    (void)size;
    while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
        ;
    party_check(rc, "utofu_poll_mrq");
}

static void *map_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    check_errno(p != MAP_FAILED, "memory");
    return memset(p, 1, size);
}

int main(int argc, char **argv)
{
    static const struct way ways[] = {{"socket, polled", send_polled, receive_polled},
                                      {"socket, epoll", send_watched, receive_watched},
                                      {"libfabric", send_fabric, receive_fabric},
                                      {"put", send_put, receive_put}};

    party_open("tcp", 2, 60);
    if (party.size != 2)
        party_fail(PARTY_USAGE, "two processes, please");
    bind_to_cpu((int)party.rank);
    to_send = map_pages(MAX_SIZE);
    to_receive = map_pages(MAX_SIZE);
    listen_for_sockets();
    open_fabric();
    open_vcq();
    party_gather(&mine, sizeof(mine), both, false);
    pair_sockets();
    check_fabric(fi_av_insert(av, both[!party.rank].name, 1, &peer, 0, NULL), "fi_av_insert");
    measure_ways(ways, sizeof(ways) / sizeof(ways[0]), (int)party.rank, argc, argv);
    party_barrier();
    close_vcq();
    close_fabric();
    party_close();
    return 0;
}
#endif
