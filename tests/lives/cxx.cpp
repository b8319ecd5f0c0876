/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of the objects of utofu.hpp, also with an exception. See lives.h. */
#include <utofu.hpp>

#include <cstdlib>
#include <vector>

#include "lives_c.h"

namespace
{

void live()
{
    utofu::Vcq vcq(0);
    std::vector<std::uint64_t> words(1024);
    utofu::Memory memory(vcq, words);
    void *cbdata;

    if (!vcq.put(vcq.query_vcq_id(), memory.stadd(), memory.stadd(512), 512, 0,
                 utofu::onesided_flag::tcq_notice))
        std::abort();
    while (!vcq.poll_tcq(cbdata))
        continue;
    try {
        utofu::Vcq none(99);
        std::abort();
    } catch (const utofu::Error &) {
    }
}

} // namespace

int main()
{
    lives_c_begin("cxx_object", 0);
    do {
        live();
    } while (lives_c_next());
    return lives_c_end() ? 0 : 1;
}
