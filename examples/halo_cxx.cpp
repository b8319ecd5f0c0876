/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of numbers is cut into pieces, one for each process, in a ring, with utofu.hpp. In every
 * step each process puts its first and its last number into a neighbour's halo, and takes the mean
 * of each number and those beside it. A neighbour may be one step ahead, never two: so the halo has
 * two places for each side, which take turns.
 *
 *     cc -c meet.c $(pkg-config --cflags utofu)
 *     c++ -std=c++17 -o halo_cxx halo_cxx.cpp meet.o $(pkg-config --cflags --libs utofu)
 *     utofurun -n 4 ./halo_cxx
 *     mpirun -n 4 ./halo_cxx
 */
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <utofu.hpp>

#include "meet.h"

namespace
{

namespace flag = utofu::onesided_flag;

enum Side : std::size_t { LEFT, RIGHT };
constexpr std::size_t NUMBERS = 64;
constexpr int STEPS = 100;
/* Registered memory: at 0 the halo, two places for each side; at 4 what is sent, likewise. */
constexpr std::size_t OUT = 4, MEMORY = 256 / sizeof(double);

/* Where to put what a neighbour gets. */
struct Neighbour {
    utofu::VcqId id;
    utofu::Stadd<double> halo;
};

/* Memory with a chosen STag: its STADD follows from the id of the VCQ. */
constexpr unsigned int STAG = 0;

class Halo
{
  public:
    Halo(utofu::VcqView vcq, utofu::Span<double> memory) : vcq_(vcq)
    {
        std::array<utofu_vcq_id_t, MAX_PROCESSES> ids;
        int rank = my_rank(), n = num_processes();

        memory_ = utofu::Memory<double>::with_stag(vcq, memory, STAG);
        meet(vcq.hdl(), ids.data()); /* all have registered their memory */
        neighbours_[LEFT] = neighbour(ids[static_cast<std::size_t>((rank + n - 1) % n)]);
        neighbours_[RIGHT] = neighbour(ids[static_cast<std::size_t>((rank + 1) % n)]);
    }

    /* Gives the numbers to the neighbours, and returns what they gave. */
    std::array<double, 2> exchange(int step, double first, double last)
    {
        std::size_t turn = static_cast<std::size_t>(step % 2);

        memory_[OUT + 2 * turn + LEFT] = first;
        memory_[OUT + 2 * turn + RIGHT] = last;
        put(LEFT, turn, RIGHT); /* it is what is to the right of the left neighbour */
        put(RIGHT, turn, LEFT);
        while (came_[turn] < 2) /* wait_notice() also gives notices that came while meet() waited */
            came_[wait_notice(vcq_.hdl()).edata]++;
        while (sent_ < 2)
            take_entry();
        came_[turn] = 0;
        sent_ = 0;
        return {memory_[2 * turn + LEFT], memory_[2 * turn + RIGHT]};
    }

  private:
    static Neighbour neighbour(utofu_vcq_id_t number)
    {
        auto id = static_cast<utofu::VcqId>(number);

        return {id, utofu::query_stadd<double>(id, STAG)};
    }

    void put(Side to, std::size_t turn, Side place)
    {
        const Neighbour &other = neighbours_[to];

        while (!vcq_.put(other.id, memory_.stadd(OUT + 2 * turn + to),
                         other.halo + (2 * turn + place), 1, turn,
                         flag::tcq_notice | flag::remote_mrq_notice))
            take_entry(); /* makes room in the TOQ */
    }

    void take_entry()
    {
        if (vcq_.poll_tcq())
            sent_++;
    }

    utofu::VcqView vcq_;
    utofu::Memory<double> memory_;
    std::array<Neighbour, 2> neighbours_;
    std::array<int, 2> came_{}; /* puts of the neighbours, for either turn */
    int sent_ = 0;
};

double first_value(std::size_t i)
{
    return std::sin(static_cast<double>(i));
}

/* One step of numbers, of which the first and the last are only read. */
void smooth(std::vector<double> &numbers)
{
    double before = numbers[0];

    for (std::size_t i = 1; i + 1 < numbers.size(); i++) {
        double here = numbers[i];

        numbers[i] = (before + here + numbers[i + 1]) / 3;
        before = here;
    }
}

/* The same computation without communication: the whole ring. */
std::vector<double> expected(std::size_t total)
{
    std::vector<double> ring(total + 2);

    for (std::size_t i = 0; i < total; i++)
        ring[i + 1] = first_value(i);
    for (int step = 0; step < STEPS; step++) {
        ring[0] = ring[total];
        ring[total + 1] = ring[1];
        smooth(ring);
    }
    return ring;
}

int compute(utofu::VcqView vcq)
{
    std::size_t from = NUMBERS * static_cast<std::size_t>(my_rank());
    auto *memory = static_cast<double *>(aligned_memory(MEMORY * sizeof(double)));
    std::vector<double> numbers(NUMBERS + 2);
    int wrong = 0;
    {
        Halo halo(vcq, utofu::Span<double>(memory, MEMORY));
        utofu_vcq_id_t ids[MAX_PROCESSES];

        for (std::size_t i = 0; i < NUMBERS; i++)
            numbers[i + 1] = first_value(from + i);
        for (int step = 0; step < STEPS; step++) {
            auto sides = halo.exchange(step, numbers[1], numbers[NUMBERS]);

            numbers[0] = sides[LEFT];
            numbers[NUMBERS + 1] = sides[RIGHT];
            smooth(numbers);
        }
        meet(vcq.hdl(), ids); /* nobody puts to memory that is deregistered now */
    }
    std::vector<double> right = expected(NUMBERS * static_cast<std::size_t>(num_processes()));
    for (std::size_t i = 1; i <= NUMBERS; i++)
        wrong += std::abs(numbers[i] - right[from + i]) > 1e-12;
    std::free(memory);
    return wrong;
}

} // namespace

int main()
{
    utofu_vcq_hdl_t vcq = open_vcq();
    int wrong = 0;

    try {
        wrong = compute(utofu::VcqView(vcq));
    } catch (const utofu::Error &error) { /* the name and number of the code, and the reason */
        std::fprintf(stderr, "rank %d: %s: %s\n", my_rank(), error.call(), error.what());
        return 1;
    }
    if (wrong > 0)
        std::fprintf(stderr, "rank %d: %d numbers are wrong\n", my_rank(), wrong);
    else
        std::printf("rank %d: %d steps are right\n", my_rank(), STEPS);
    close_vcq(vcq);
    return wrong > 0;
}
