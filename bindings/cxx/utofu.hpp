/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu.hpp - uTofu for C++17: headers only, the interface of utofu.h with owners and types
 *
 * Names are those of utofu.h without "utofu_"; what a function does, its flags and its codes are
 * described there. What is different:
 *
 *   Owners     Vcq, Memory and Vbg free what they have created. They can be moved, not copied.
 *              close() frees at once, and throws if that fails; a destructor does not throw.
 *   Types      A Stadd<T> is the STADD of objects of type T: lengths, strides and offsets are
 *              numbers of objects. Spans stand for pointer and length.
 *   Errors     Error has the code, its name, and the text of utofu_get_last_error(). What a
 *              correct program may meet is no exception: start functions return false for
 *              UTOFU_ERR_BUSY, polls return false or nothing for UTOFU_ERR_NOT_FOUND and
 *              UTOFU_ERR_NOT_COMPLETED. TcqError and MrqError have the entry of the communication
 *              that failed.
 *   Cost       A call is the call of the C function; nothing here allocates memory except where a
 *              comment says so. An exception object has a text of fixed size.
 *   Threads    As utofu.h says, function by function: an object has no lock of its own. The text
 *              of an Error is that of the thread that throws it.
 *
 * Where Fugaku's utofu.h is used, the functions of utofu_ext.h are left out.
 */
#ifndef UTOFU_HPP
#define UTOFU_HPP

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <utofu.h>
#if __has_include(<utofu_ext.h>)
#    include <utofu_ext.h>
#else
extern "C" void utofu_get_last_error(const char *buf);
#endif

namespace utofu
{

/*
 * Constants
 */

/* Return codes: X(name here, name in utofu.h) */
#define UTOFU_HPP_CODES(X)                                                                         \
    X(success, UTOFU_SUCCESS)                                                                      \
    X(not_found, UTOFU_ERR_NOT_FOUND)                                                              \
    X(not_completed, UTOFU_ERR_NOT_COMPLETED)                                                      \
    X(not_processed, UTOFU_ERR_NOT_PROCESSED)                                                      \
    X(busy, UTOFU_ERR_BUSY)                                                                        \
    X(used, UTOFU_ERR_USED)                                                                        \
    X(full, UTOFU_ERR_FULL)                                                                        \
    X(not_available, UTOFU_ERR_NOT_AVAILABLE)                                                      \
    X(not_supported, UTOFU_ERR_NOT_SUPPORTED)                                                      \
    X(tcq_other, UTOFU_ERR_TCQ_OTHER)                                                              \
    X(tcq_desc, UTOFU_ERR_TCQ_DESC)                                                                \
    X(tcq_memory, UTOFU_ERR_TCQ_MEMORY)                                                            \
    X(tcq_stadd, UTOFU_ERR_TCQ_STADD)                                                              \
    X(tcq_length, UTOFU_ERR_TCQ_LENGTH)                                                            \
    X(mrq_other, UTOFU_ERR_MRQ_OTHER)                                                              \
    X(mrq_peer, UTOFU_ERR_MRQ_PEER)                                                                \
    X(mrq_lcl_memory, UTOFU_ERR_MRQ_LCL_MEMORY)                                                    \
    X(mrq_rmt_memory, UTOFU_ERR_MRQ_RMT_MEMORY)                                                    \
    X(mrq_lcl_stadd, UTOFU_ERR_MRQ_LCL_STADD)                                                      \
    X(mrq_rmt_stadd, UTOFU_ERR_MRQ_RMT_STADD)                                                      \
    X(mrq_lcl_length, UTOFU_ERR_MRQ_LCL_LENGTH)                                                    \
    X(mrq_rmt_length, UTOFU_ERR_MRQ_RMT_LENGTH)                                                    \
    X(barrier_other, UTOFU_ERR_BARRIER_OTHER)                                                      \
    X(barrier_mismatch, UTOFU_ERR_BARRIER_MISMATCH)                                                \
    X(invalid_arg, UTOFU_ERR_INVALID_ARG)                                                          \
    X(invalid_pointer, UTOFU_ERR_INVALID_POINTER)                                                  \
    X(invalid_flags, UTOFU_ERR_INVALID_FLAGS)                                                      \
    X(invalid_coords, UTOFU_ERR_INVALID_COORDS)                                                    \
    X(invalid_path, UTOFU_ERR_INVALID_PATH)                                                        \
    X(invalid_tni_id, UTOFU_ERR_INVALID_TNI_ID)                                                    \
    X(invalid_cq_id, UTOFU_ERR_INVALID_CQ_ID)                                                      \
    X(invalid_bg_id, UTOFU_ERR_INVALID_BG_ID)                                                      \
    X(invalid_cmp_id, UTOFU_ERR_INVALID_CMP_ID)                                                    \
    X(invalid_vcq_hdl, UTOFU_ERR_INVALID_VCQ_HDL)                                                  \
    X(invalid_vcq_id, UTOFU_ERR_INVALID_VCQ_ID)                                                    \
    X(invalid_vbg_id, UTOFU_ERR_INVALID_VBG_ID)                                                    \
    X(invalid_path_id, UTOFU_ERR_INVALID_PATH_ID)                                                  \
    X(invalid_stadd, UTOFU_ERR_INVALID_STADD)                                                      \
    X(invalid_address, UTOFU_ERR_INVALID_ADDRESS)                                                  \
    X(invalid_size, UTOFU_ERR_INVALID_SIZE)                                                        \
    X(invalid_stag, UTOFU_ERR_INVALID_STAG)                                                        \
    X(invalid_edata, UTOFU_ERR_INVALID_EDATA)                                                      \
    X(invalid_number, UTOFU_ERR_INVALID_NUMBER)                                                    \
    X(invalid_op, UTOFU_ERR_INVALID_OP)                                                            \
    X(invalid_desc, UTOFU_ERR_INVALID_DESC)                                                        \
    X(invalid_data, UTOFU_ERR_INVALID_DATA)                                                        \
    X(out_of_resource, UTOFU_ERR_OUT_OF_RESOURCE)                                                  \
    X(out_of_memory, UTOFU_ERR_OUT_OF_MEMORY)                                                      \
    X(fatal, UTOFU_ERR_FATAL)

enum class Code : int {
#define UTOFU_HPP_CODE(ours, theirs) ours = theirs,
    UTOFU_HPP_CODES(UTOFU_HPP_CODE)
#undef UTOFU_HPP_CODE
};

/* "UTOFU_ERR_BUSY"; of a number that is no code, "unknown code". */
inline const char *name(Code code) noexcept
{
    switch (code) {
#define UTOFU_HPP_CODE(ours, theirs)                                                               \
case Code::ours:                                                                                   \
    return #theirs;
        UTOFU_HPP_CODES(UTOFU_HPP_CODE)
#undef UTOFU_HPP_CODE
    }
    return "unknown code";
}
#undef UTOFU_HPP_CODES

enum class ArmwOp : int {
    swap = UTOFU_ARMW_OP_SWAP,
    add = UTOFU_ARMW_OP_ADD,
    bit_xor = UTOFU_ARMW_OP_XOR,
    bit_and = UTOFU_ARMW_OP_AND,
    bit_or = UTOFU_ARMW_OP_OR,
};

enum class ReduceOp : int {
    barrier = UTOFU_REDUCE_OP_BARRIER,
    band = UTOFU_REDUCE_OP_BAND,
    bor = UTOFU_REDUCE_OP_BOR,
    bxor = UTOFU_REDUCE_OP_BXOR,
    max = UTOFU_REDUCE_OP_MAX,
    maxloc = UTOFU_REDUCE_OP_MAXLOC,
    sum = UTOFU_REDUCE_OP_SUM,
    bfpsum = UTOFU_REDUCE_OP_BFPSUM,
};

enum class NoticeType : std::uint8_t {
    lcl_put = UTOFU_MRQ_TYPE_LCL_PUT,
    rmt_put = UTOFU_MRQ_TYPE_RMT_PUT,
    lcl_get = UTOFU_MRQ_TYPE_LCL_GET,
    rmt_get = UTOFU_MRQ_TYPE_RMT_GET,
    lcl_armw = UTOFU_MRQ_TYPE_LCL_ARMW,
    rmt_armw = UTOFU_MRQ_TYPE_RMT_ARMW,
};

/* Flags of one group of functions, joined with |. */
template <class Group> class Flags
{
  public:
    constexpr Flags() noexcept = default;
    constexpr explicit Flags(unsigned long int bits) noexcept : bits_(bits)
    {
    }
    constexpr unsigned long int bits() const noexcept
    {
        return bits_;
    }
    constexpr Flags &operator|=(Flags other) noexcept
    {
        bits_ |= other.bits_;
        return *this;
    }
    friend constexpr Flags operator|(Flags left, Flags right) noexcept
    {
        return Flags(left.bits_ | right.bits_);
    }
    friend constexpr bool operator==(Flags left, Flags right) noexcept
    {
        return left.bits_ == right.bits_;
    }
    friend constexpr bool operator!=(Flags left, Flags right) noexcept
    {
        return left.bits_ != right.bits_;
    }

  private:
    unsigned long int bits_ = 0;
};

using VcqFlags = Flags<struct VcqGroup>;
using VbgFlags = Flags<struct VbgGroup>;
using RegMemFlags = Flags<struct RegMemGroup>;
using OnesidedFlags = Flags<struct OnesidedGroup>;

namespace vcq_flag
{
inline constexpr VcqFlags thread_safe{UTOFU_VCQ_FLAG_THREAD_SAFE};
inline constexpr VcqFlags exclusive{UTOFU_VCQ_FLAG_EXCLUSIVE};
inline constexpr VcqFlags session_mode{UTOFU_VCQ_FLAG_SESSION_MODE};
} // namespace vcq_flag

namespace vbg_flag
{
inline constexpr VbgFlags thread_safe{UTOFU_VBG_FLAG_THREAD_SAFE};
} // namespace vbg_flag

namespace reg_mem_flag
{
inline constexpr RegMemFlags read_only{UTOFU_REG_MEM_FLAG_READ_ONLY};
} // namespace reg_mem_flag

namespace onesided_flag
{
inline constexpr OnesidedFlags strong_order{UTOFU_ONESIDED_FLAG_STRONG_ORDER};
inline constexpr OnesidedFlags packet_response{UTOFU_ONESIDED_FLAG_PACKET_RESPONSE};
inline constexpr OnesidedFlags remote_mrq_notice{UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE};
inline constexpr OnesidedFlags padding{UTOFU_ONESIDED_FLAG_PADDING};
inline constexpr OnesidedFlags cache_injection{UTOFU_ONESIDED_FLAG_CACHE_INJECTION};
inline constexpr OnesidedFlags delay_start{UTOFU_ONESIDED_FLAG_DELAY_START};
inline constexpr OnesidedFlags tcq_notice{UTOFU_ONESIDED_FLAG_TCQ_NOTICE};
inline constexpr OnesidedFlags local_mrq_notice{UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE};

constexpr OnesidedFlags sps(unsigned int step) noexcept
{
    return OnesidedFlags(UTOFU_ONESIDED_FLAG_SPS(step));
}

constexpr OnesidedFlags path(utofu_path_id_t path_id) noexcept
{
    return OnesidedFlags(UTOFU_ONESIDED_FLAG_PATH(path_id));
}
} // namespace onesided_flag

/* Bits of OnesidedCaps::flags, OnesidedCaps::armw_ops and BarrierCaps::reduce_ops */
namespace onesided_cap_flag
{
inline constexpr unsigned long int session_mode = UTOFU_ONESIDED_CAP_FLAG_SESSION_MODE;
inline constexpr unsigned long int armw = UTOFU_ONESIDED_CAP_FLAG_ARMW;
} // namespace onesided_cap_flag

namespace onesided_cap_armw_op
{
inline constexpr unsigned long int cswap = UTOFU_ONESIDED_CAP_ARMW_OP_CSWAP;
inline constexpr unsigned long int swap = UTOFU_ONESIDED_CAP_ARMW_OP_SWAP;
inline constexpr unsigned long int add = UTOFU_ONESIDED_CAP_ARMW_OP_ADD;
inline constexpr unsigned long int bit_xor = UTOFU_ONESIDED_CAP_ARMW_OP_XOR;
inline constexpr unsigned long int bit_and = UTOFU_ONESIDED_CAP_ARMW_OP_AND;
inline constexpr unsigned long int bit_or = UTOFU_ONESIDED_CAP_ARMW_OP_OR;
} // namespace onesided_cap_armw_op

namespace barrier_cap_reduce_op
{
inline constexpr unsigned long int barrier = UTOFU_BARRIER_CAP_REDUCE_OP_BARRIER;
inline constexpr unsigned long int band = UTOFU_BARRIER_CAP_REDUCE_OP_BAND;
inline constexpr unsigned long int bor = UTOFU_BARRIER_CAP_REDUCE_OP_BOR;
inline constexpr unsigned long int bxor = UTOFU_BARRIER_CAP_REDUCE_OP_BXOR;
inline constexpr unsigned long int max = UTOFU_BARRIER_CAP_REDUCE_OP_MAX;
inline constexpr unsigned long int maxloc = UTOFU_BARRIER_CAP_REDUCE_OP_MAXLOC;
inline constexpr unsigned long int sum = UTOFU_BARRIER_CAP_REDUCE_OP_SUM;
inline constexpr unsigned long int bfpsum = UTOFU_BARRIER_CAP_REDUCE_OP_BFPSUM;
} // namespace barrier_cap_reduce_op

/*
 * Types
 */

using TniId = utofu_tni_id_t;
using CqId = utofu_cq_id_t;
using BgId = utofu_bg_id_t;
using CmpId = utofu_cmp_id_t;
using PathId = utofu_path_id_t;
using VcqHdl = utofu_vcq_hdl_t;
using VbgId = utofu_vbg_id_t;
using OnesidedCaps = utofu_onesided_caps;
using BarrierCaps = utofu_barrier_caps;
using VbgSetting = utofu_vbg_setting;
using Coords = std::array<std::uint8_t, 6>;     /* X, Y, Z, A, B, C */
using PathCoords = std::array<std::uint8_t, 3>; /* A, B, C */

/* A VCQ in the whole network. Its number: static_cast<utofu_vcq_id_t>(id) */
enum class VcqId : utofu_vcq_id_t {};

inline constexpr VbgId vbg_id_null = UTOFU_VBG_ID_NULL;
inline constexpr std::uint8_t path_coord_null = UTOFU_PATH_COORD_NULL;

struct Version {
    int major_ver, minor_ver;
};

/* The version of utofu.h; query_utofu_version() has that of the library. */
inline constexpr Version header_version{UTOFU_VERSION_MAJOR, UTOFU_VERSION_MINOR};

struct VcqInfo {
    Coords coords;
    TniId tni_id;
    CqId cq_id;
    std::uint16_t extra_val;
};

struct VbgInfo {
    Coords coords;
    TniId tni_id;
    BgId bg_id;
    std::uint16_t extra_val;
};

/* Objects that lie one after the other, in memory of somebody else. */
template <class T> class Span
{
    template <class U>
    static constexpr bool is_ours =
        std::is_convertible_v<U (*)[], T (*)[]>; /* the same type, or const */
    template <class C> using Data = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;

  public:
    using value_type = std::remove_cv_t<T>;

    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size)
    {
    }
    /* arrays, std::array, std::vector, std::span... */
    template <class C, class = std::enable_if_t<is_ours<Data<C>>>>
    constexpr Span(C &container) noexcept : data_(std::data(container)), size_(std::size(container))
    {
    }
    template <class C, class = std::enable_if_t<is_ours<Data<const C>>>>
    constexpr Span(const C &container) noexcept
        : data_(std::data(container)), size_(std::size(container))
    {
    }
    constexpr T *data() const noexcept
    {
        return data_;
    }
    constexpr std::size_t size() const noexcept
    {
        return size_;
    }
    constexpr T *begin() const noexcept
    {
        return data_;
    }
    constexpr T *end() const noexcept
    {
        return data_ + size_;
    }
    constexpr T &operator[](std::size_t i) const noexcept
    {
        return data_[i];
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

template <class C>
Span(C &) -> Span<std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>>;

/* The STADD of objects of type T, which may be const: such memory is not written. Offsets are
 * numbers of objects. */
template <class T> class Stadd
{
    static_assert(std::is_trivially_copyable_v<T>, "uTofu copies bytes");

  public:
    constexpr Stadd() noexcept = default;
    constexpr explicit Stadd(utofu_stadd_t value) noexcept : value_(value)
    {
    }
    constexpr operator Stadd<const T>() const noexcept
    {
        return Stadd<const T>(value_);
    }
    constexpr utofu_stadd_t value() const noexcept
    {
        return value_;
    }
    /* The same place, as objects of another type. */
    template <class U> constexpr Stadd<U> as() const noexcept
    {
        static_assert(std::is_const_v<U> || !std::is_const_v<T>, "this memory is not written");
        return Stadd<U>(value_);
    }
    friend constexpr Stadd operator+(Stadd stadd, std::size_t objects) noexcept
    {
        return Stadd(stadd.value_ + objects * sizeof(T));
    }
    friend constexpr Stadd operator-(Stadd stadd, std::size_t objects) noexcept
    {
        return Stadd(stadd.value_ - objects * sizeof(T));
    }
    friend constexpr bool operator==(Stadd left, Stadd right) noexcept
    {
        return left.value_ == right.value_;
    }
    friend constexpr bool operator!=(Stadd left, Stadd right) noexcept
    {
        return left.value_ != right.value_;
    }

  private:
    utofu_stadd_t value_ = 0;
};

/* A notice from the MRQ; the fields are those of struct utofu_mrq_notice. */
struct Notice : utofu_mrq_notice {
    NoticeType type() const noexcept
    {
        return static_cast<NoticeType>(notice_type);
    }
    VcqId peer() const noexcept
    {
        return static_cast<VcqId>(vcq_id);
    }
    /* The remote word before the ARMW. */
    template <class T> T previous() const noexcept
    {
        static_assert(std::is_integral_v<T>, "an ARMW is on integers");
        return static_cast<T>(rmt_value);
    }
};

/*
 * Errors
 */

class Error : public std::exception
{
  public:
    /* call: the C function that returned the code, or a text that begins with its name */
    Error(int code, const char *call) noexcept : code_(code), call_(call)
    {
        char start[64];
        int length = std::snprintf(start, sizeof(start), "%s (%d)", name(), code);

        utofu_get_last_error(text_);
        /* another thread's, or none, where this code is not of a call of this thread */
        if (length < 0 || std::strncmp(text_, start, static_cast<std::size_t>(length)) != 0)
            std::snprintf(text_, sizeof(text_), "%s: %s", start, call);
    }
    Code code() const noexcept
    {
        return static_cast<Code>(code_);
    }
    const char *name() const noexcept
    {
        return utofu::name(code());
    }
    const char *call() const noexcept
    {
        return call_;
    }
    const char *what() const noexcept override
    {
        return text_;
    }

  private:
    int code_;
    const char *call_;
    char text_[1024] = "";
};

/* A communication could not be sent: what poll_tcq() found. */
class TcqError : public Error
{
  public:
    TcqError(int code, void *cbdata) noexcept : Error(code, "utofu_poll_tcq"), cbdata_(cbdata)
    {
    }
    void *cbdata() const noexcept
    {
        return cbdata_;
    }

  private:
    void *cbdata_;
};

/* A communication failed after it was sent: what poll_mrq() found. */
class MrqError : public Error
{
  public:
    MrqError(int code, const Notice &notice) noexcept
        : Error(code, "utofu_poll_mrq"), notice_(notice)
    {
    }
    const Notice &notice() const noexcept
    {
        return notice_;
    }

  private:
    Notice notice_;
};

namespace detail
{
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(int rc, const char *call)
{
    throw Error(rc, call);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_tcq(int rc, void *cbdata)
{
    if (rc <= UTOFU_ERR_TCQ_OTHER && rc > UTOFU_ERR_MRQ_OTHER)
        throw TcqError(rc, cbdata);
    throw Error(rc, "utofu_poll_tcq");
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_mrq(int rc, const Notice &notice)
{
    if (rc <= UTOFU_ERR_MRQ_OTHER && rc > UTOFU_ERR_BARRIER_OTHER)
        throw MrqError(rc, notice);
    throw Error(rc, "utofu_poll_mrq");
}

inline void check(int rc, const char *call)
{
    if (rc != UTOFU_SUCCESS)
        fail(rc, call);
}

/* True for success, false for the one other code that is no error. */
inline bool is_done(int rc, int not_yet, const char *call)
{
    if (rc == UTOFU_SUCCESS)
        return true;
    if (rc != not_yet)
        fail(rc, call);
    return false;
}

inline bool is_submitted(int rc, const char *call)
{
    return is_done(rc, UTOFU_ERR_BUSY, call);
}

/* More bytes than a size_t holds are too many for every function. */
template <class T> constexpr std::size_t bytes_of(std::size_t objects) noexcept
{
    if constexpr (sizeof(T) == 1)
        return objects;
    else
        return objects <= SIZE_MAX / sizeof(T) ? objects * sizeof(T) : SIZE_MAX;
}

/* From is read and To is written: the same type, To not const. */
template <class From, class To> constexpr void check_types() noexcept
{
    static_assert(!std::is_const_v<To>, "the destination is memory that is not written");
    static_assert(std::is_same_v<std::remove_const_t<From>, To>,
                  "source and destination are of different types: as<T>() says what is meant");
}

template <class T> constexpr void check_word() noexcept
{
    static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>, "an ARMW is on integers");
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an ARMW is on words of 4 or 8 bytes");
}

/* The bits of an integer, without those of its sign in front. */
template <class T> constexpr std::uint64_t word_of(T value) noexcept
{
    return static_cast<std::make_unsigned_t<T>>(value);
}

/* A value of up to 8 bytes, as utofu_put_piggyback8() takes it. */
template <class T> std::uint64_t piggyback_of(const T &value) noexcept
{
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "at most 8 bytes");
    std::uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    std::memcpy(reinterpret_cast<char *>(&word) + 8 - sizeof(T), &value, sizeof(T));
#else
    std::memcpy(&word, &value, sizeof(T));
#endif
    return word;
}

struct Free {
    void operator()(void *memory) const noexcept
    {
        std::free(memory);
    }
};
} // namespace detail

/*
 * TNIs, ids, versions
 */

/* The ids of TNIs, in memory that the library has allocated with malloc(). */
class TniList
{
  public:
    TniList(TniId *ids, std::size_t size) noexcept : ids_(ids), size_(size)
    {
    }
    std::size_t size() const noexcept
    {
        return size_;
    }
    const TniId *data() const noexcept
    {
        return ids_.get();
    }
    const TniId *begin() const noexcept
    {
        return ids_.get();
    }
    const TniId *end() const noexcept
    {
        return ids_.get() + size_;
    }
    TniId operator[](std::size_t i) const noexcept
    {
        return ids_.get()[i];
    }

  private:
    std::unique_ptr<TniId, detail::Free> ids_;
    std::size_t size_;
};

inline TniList get_onesided_tnis()
{
    TniId *ids = nullptr;
    std::size_t size = 0;

    detail::check(utofu_get_onesided_tnis(&ids, &size), "utofu_get_onesided_tnis");
    return TniList(ids, size);
}

inline TniList get_barrier_tnis()
{
    TniId *ids = nullptr;
    std::size_t size = 0;

    detail::check(utofu_get_barrier_tnis(&ids, &size), "utofu_get_barrier_tnis");
    return TniList(ids, size);
}

inline const OnesidedCaps &query_onesided_caps(TniId tni_id)
{
    OnesidedCaps *caps = nullptr;

    detail::check(utofu_query_onesided_caps(tni_id, &caps), "utofu_query_onesided_caps");
    return *caps;
}

inline const BarrierCaps &query_barrier_caps(TniId tni_id)
{
    BarrierCaps *caps = nullptr;

    detail::check(utofu_query_barrier_caps(tni_id, &caps), "utofu_query_barrier_caps");
    return *caps;
}

inline VcqId construct_vcq_id(const Coords &coords, TniId tni_id, CqId cq_id, CmpId cmp_id)
{
    utofu_vcq_id_t id = 0;

    detail::check(utofu_construct_vcq_id(const_cast<std::uint8_t *>(coords.data()), tni_id, cq_id,
                                         cmp_id, &id),
                  "utofu_construct_vcq_id");
    return static_cast<VcqId>(id);
}

/* Returns the id with another path; without coordinates, with a suitable one. */
[[nodiscard]] inline VcqId set_vcq_id_path(VcqId vcq_id, std::optional<PathCoords> path = {})
{
    utofu_vcq_id_t id = static_cast<utofu_vcq_id_t>(vcq_id);

    detail::check(utofu_set_vcq_id_path(&id, path ? path->data() : nullptr),
                  "utofu_set_vcq_id_path");
    return static_cast<VcqId>(id);
}

inline VcqInfo query_vcq_info(VcqId vcq_id)
{
    VcqInfo info{};

    detail::check(utofu_query_vcq_info(static_cast<utofu_vcq_id_t>(vcq_id), info.coords.data(),
                                       &info.tni_id, &info.cq_id, &info.extra_val),
                  "utofu_query_vcq_info");
    return info;
}

inline VbgInfo query_vbg_info(VbgId vbg_id)
{
    VbgInfo info{};

    detail::check(utofu_query_vbg_info(vbg_id, info.coords.data(), &info.tni_id, &info.bg_id,
                                       &info.extra_val),
                  "utofu_query_vbg_info");
    return info;
}

/* Without coordinates: a suitable path. */
inline PathId get_path_id(VcqId vcq_id, std::optional<PathCoords> path = {})
{
    PathId id = 0;

    detail::check(
        utofu_get_path_id(static_cast<utofu_vcq_id_t>(vcq_id), path ? path->data() : nullptr, &id),
        "utofu_get_path_id");
    return id;
}

inline PathCoords get_path_coords(VcqId vcq_id, PathId path_id)
{
    PathCoords path{};

    detail::check(utofu_get_path_coords(static_cast<utofu_vcq_id_t>(vcq_id), path_id, path.data()),
                  "utofu_get_path_coords");
    return path;
}

template <class T> Stadd<T> query_stadd(VcqId vcq_id, unsigned int stag)
{
    utofu_stadd_t stadd = 0;

    detail::check(utofu_query_stadd(static_cast<utofu_vcq_id_t>(vcq_id), stag, &stadd),
                  "utofu_query_stadd");
    return Stadd<T>(stadd);
}

inline Version query_tofu_version() noexcept
{
    Version version{};

    utofu_query_tofu_version(&version.major_ver, &version.minor_ver);
    return version;
}

inline Version query_utofu_version() noexcept
{
    Version version{};

    utofu_query_utofu_version(&version.major_ver, &version.minor_ver);
    return version;
}

inline Coords query_my_coords()
{
    Coords coords{};

    detail::check(utofu_query_my_coords(coords.data()), "utofu_query_my_coords");
    return coords;
}

/* Room for the text of utofu_get_last_error(). Error::what() has it for a call that threw. */
struct LastError {
    char text[1024] = "";
};

inline LastError get_last_error() noexcept
{
    LastError last;

    utofu_get_last_error(last.text);
    return last;
}

/*
 * One-sided communication
 */

/* Prepared descriptors, one after the other, in memory of the caller. The prepare functions append
 * to it; post_toq() submits all of it, any number of times. */
class Descriptors
{
  public:
    /* caps: those of the VCQ's TNI, which say how much room a descriptor takes */
    Descriptors(Span<std::uint64_t> room, const OnesidedCaps &caps) noexcept
        : room_(room), most_(caps.max_toq_desc_size)
    {
    }
    void clear() noexcept
    {
        size_ = 0;
    }
    void *data() const noexcept
    {
        return room_.data();
    }
    std::size_t size_bytes() const noexcept
    {
        return size_;
    }
    /* Where the next ones go; throws where there is no room for so many. */
    void *next(std::size_t number, const char *call) const
    {
        std::size_t left = room_.size() * 8 - size_;

        if (number > left || number * most_ > left)
            detail::fail(UTOFU_ERR_INVALID_SIZE, call);
        return reinterpret_cast<char *>(room_.data()) + size_;
    }
    void added(int rc, std::size_t bytes, const char *call)
    {
        detail::check(rc, call);
        size_ += bytes;
    }

  private:
    Span<std::uint64_t> room_;
    std::size_t size_ = 0, most_;
};

/* The functions of a VCQ. It owns nothing, may be copied, and is valid as long as the VCQ. A put
 * reads objects at lcl and writes them at rmt; a get reads at rmt and writes at lcl. Start
 * functions return false for UTOFU_ERR_BUSY: nothing was submitted; poll_tcq() makes room. */
class VcqView
{
  public:
    constexpr VcqView() noexcept = default;
    constexpr explicit VcqView(VcqHdl hdl) noexcept : hdl_(hdl)
    {
    }
    constexpr VcqHdl hdl() const noexcept
    {
        return hdl_;
    }
    VcqId query_vcq_id() const
    {
        utofu_vcq_id_t id = 0;

        detail::check(utofu_query_vcq_id(hdl_, &id), "utofu_query_vcq_id");
        return static_cast<VcqId>(id);
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool put(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt, std::size_t count,
                           std::uint64_t edata = 0, OnesidedFlags flags = {},
                           void *cbdata = nullptr) const
    {
        detail::check_types<Lcl, Rmt>();
        return detail::is_submitted(
            utofu_put(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
                      detail::bytes_of<Lcl>(count), edata, flags.bits(), cbdata),
            "utofu_put");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool put_gap(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt, std::size_t count,
                               std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                               std::size_t gap, void *cbdata = nullptr) const
    {
        detail::check_types<Lcl, Rmt>();
        return detail::is_submitted(
            utofu_put_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
                          detail::bytes_of<Lcl>(count), edata, flags.bits(), mtu, gap, cbdata),
            "utofu_put_gap");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool put_stride(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                  std::size_t count, std::size_t stride, std::size_t num_blocks,
                                  std::uint64_t edata = 0, OnesidedFlags flags = {},
                                  void *cbdata = nullptr) const
    {
        detail::check_types<Lcl, Rmt>();
        return detail::is_submitted(utofu_put_stride(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                     lcl.value(), rmt.value(),
                                                     detail::bytes_of<Lcl>(count),
                                                     detail::bytes_of<Lcl>(stride), num_blocks,
                                                     edata, flags.bits(), cbdata),
                                    "utofu_put_stride");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool put_stride_gap(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                      std::size_t count, std::size_t stride, std::size_t num_blocks,
                                      std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                                      std::size_t gap, void *cbdata = nullptr) const
    {
        detail::check_types<Lcl, Rmt>();
        return detail::is_submitted(
            utofu_put_stride_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                 rmt.value(), detail::bytes_of<Lcl>(count),
                                 detail::bytes_of<Lcl>(stride), num_blocks, edata, flags.bits(),
                                 mtu, gap, cbdata),
            "utofu_put_stride_gap");
    }

    /* Memory that need not be registered, and may be changed at once. */
    template <class From, class Rmt>
    [[nodiscard]] bool put_piggyback(VcqId rmt_vcq_id, Span<From> data, Stadd<Rmt> rmt,
                                     std::uint64_t edata = 0, OnesidedFlags flags = {},
                                     void *cbdata = nullptr) const
    {
        detail::check_types<From, Rmt>();
        return detail::is_submitted(
            utofu_put_piggyback(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                const_cast<Rmt *>(data.data()), rmt.value(),
                                detail::bytes_of<Rmt>(data.size()), edata, flags.bits(), cbdata),
            "utofu_put_piggyback");
    }

    /* A value of up to 8 bytes. */
    template <class T>
    [[nodiscard]] bool put_piggyback8(VcqId rmt_vcq_id, const std::remove_const_t<T> &value,
                                      Stadd<T> rmt, std::uint64_t edata = 0,
                                      OnesidedFlags flags = {}, void *cbdata = nullptr) const
    {
        return detail::is_submitted(utofu_put_piggyback8(hdl_,
                                                         static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                         detail::piggyback_of(value), rmt.value(),
                                                         sizeof(T), edata, flags.bits(), cbdata),
                                    "utofu_put_piggyback8");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool get(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt, std::size_t count,
                           std::uint64_t edata = 0, OnesidedFlags flags = {},
                           void *cbdata = nullptr) const
    {
        detail::check_types<Rmt, Lcl>();
        return detail::is_submitted(
            utofu_get(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
                      detail::bytes_of<Lcl>(count), edata, flags.bits(), cbdata),
            "utofu_get");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool get_gap(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt, std::size_t count,
                               std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                               std::size_t gap, void *cbdata = nullptr) const
    {
        detail::check_types<Rmt, Lcl>();
        return detail::is_submitted(
            utofu_get_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
                          detail::bytes_of<Lcl>(count), edata, flags.bits(), mtu, gap, cbdata),
            "utofu_get_gap");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool get_stride(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                  std::size_t count, std::size_t stride, std::size_t num_blocks,
                                  std::uint64_t edata = 0, OnesidedFlags flags = {},
                                  void *cbdata = nullptr) const
    {
        detail::check_types<Rmt, Lcl>();
        return detail::is_submitted(utofu_get_stride(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                     lcl.value(), rmt.value(),
                                                     detail::bytes_of<Lcl>(count),
                                                     detail::bytes_of<Lcl>(stride), num_blocks,
                                                     edata, flags.bits(), cbdata),
                                    "utofu_get_stride");
    }

    template <class Lcl, class Rmt>
    [[nodiscard]] bool get_stride_gap(VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                      std::size_t count, std::size_t stride, std::size_t num_blocks,
                                      std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                                      std::size_t gap, void *cbdata = nullptr) const
    {
        detail::check_types<Rmt, Lcl>();
        return detail::is_submitted(
            utofu_get_stride_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                 rmt.value(), detail::bytes_of<Lcl>(count),
                                 detail::bytes_of<Lcl>(stride), num_blocks, edata, flags.bits(),
                                 mtu, gap, cbdata),
            "utofu_get_stride_gap");
    }

    /* utofu_armw4() or utofu_armw8(), as T has 4 or 8 bytes. */
    template <class T>
    [[nodiscard]] bool armw(VcqId rmt_vcq_id, ArmwOp op, T operand, Stadd<T> rmt,
                            std::uint64_t edata = 0, OnesidedFlags flags = {},
                            void *cbdata = nullptr) const
    {
        detail::check_word<T>();
        if constexpr (sizeof(T) == 4)
            return detail::is_submitted(utofu_armw4(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                    static_cast<utofu_armw_op>(op),
                                                    static_cast<std::uint32_t>(operand),
                                                    rmt.value(), edata, flags.bits(), cbdata),
                                        "utofu_armw4");
        else
            return detail::is_submitted(utofu_armw8(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                    static_cast<utofu_armw_op>(op),
                                                    detail::word_of(operand), rmt.value(), edata,
                                                    flags.bits(), cbdata),
                                        "utofu_armw8");
    }

    /* utofu_cswap4() or utofu_cswap8(). */
    template <class T>
    [[nodiscard]] bool cswap(VcqId rmt_vcq_id, T old_value, T new_value, Stadd<T> rmt,
                             std::uint64_t edata = 0, OnesidedFlags flags = {},
                             void *cbdata = nullptr) const
    {
        detail::check_word<T>();
        if constexpr (sizeof(T) == 4)
            return detail::is_submitted(utofu_cswap4(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                     static_cast<std::uint32_t>(old_value),
                                                     static_cast<std::uint32_t>(new_value),
                                                     rmt.value(), edata, flags.bits(), cbdata),
                                        "utofu_cswap4");
        else
            return detail::is_submitted(utofu_cswap8(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                                     detail::word_of(old_value),
                                                     detail::word_of(new_value), rmt.value(), edata,
                                                     flags.bits(), cbdata),
                                        "utofu_cswap8");
    }

    [[nodiscard]] bool nop(OnesidedFlags flags = {}, void *cbdata = nullptr) const
    {
        return detail::is_submitted(utofu_nop(hdl_, flags.bits(), cbdata), "utofu_nop");
    }

    /* Prepare functions: each appends its descriptors. */

    template <class Lcl, class Rmt>
    void prepare_put(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                     std::size_t count, std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        detail::check_types<Lcl, Rmt>();
        int rc = utofu_prepare_put(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                   rmt.value(), detail::bytes_of<Lcl>(count), edata, flags.bits(),
                                   to.next(1, "utofu_prepare_put: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_put");
    }

    template <class Lcl, class Rmt>
    void prepare_put_gap(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                         std::size_t count, std::uint64_t edata, OnesidedFlags flags,
                         std::size_t mtu, std::size_t gap) const
    {
        std::size_t bytes = 0;

        detail::check_types<Lcl, Rmt>();
        int rc =
            utofu_prepare_put_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                  rmt.value(), detail::bytes_of<Lcl>(count), edata, flags.bits(),
                                  mtu, gap, to.next(1, "utofu_prepare_put_gap: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_put_gap");
    }

    template <class Lcl, class Rmt>
    void prepare_put_stride(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                            std::size_t count, std::size_t stride, std::size_t num_blocks,
                            std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        detail::check_types<Lcl, Rmt>();
        int rc = utofu_prepare_put_stride(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
            detail::bytes_of<Lcl>(count), detail::bytes_of<Lcl>(stride), num_blocks, edata,
            flags.bits(), to.next(num_blocks, "utofu_prepare_put_stride: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_put_stride");
    }

    template <class Lcl, class Rmt>
    void prepare_put_stride_gap(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                std::size_t count, std::size_t stride, std::size_t num_blocks,
                                std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                                std::size_t gap) const
    {
        std::size_t bytes = 0;

        detail::check_types<Lcl, Rmt>();
        int rc = utofu_prepare_put_stride_gap(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
            detail::bytes_of<Lcl>(count), detail::bytes_of<Lcl>(stride), num_blocks, edata,
            flags.bits(), mtu, gap, to.next(num_blocks, "utofu_prepare_put_stride_gap: no room"),
            &bytes);
        to.added(rc, bytes, "utofu_prepare_put_stride_gap");
    }

    template <class From, class Rmt>
    void prepare_put_piggyback(Descriptors &to, VcqId rmt_vcq_id, Span<From> data, Stadd<Rmt> rmt,
                               std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        detail::check_types<From, Rmt>();
        int rc = utofu_prepare_put_piggyback(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), const_cast<Rmt *>(data.data()),
            rmt.value(), detail::bytes_of<Rmt>(data.size()), edata, flags.bits(),
            to.next(1, "utofu_prepare_put_piggyback: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_put_piggyback");
    }

    template <class T>
    void prepare_put_piggyback8(Descriptors &to, VcqId rmt_vcq_id,
                                const std::remove_const_t<T> &value, Stadd<T> rmt,
                                std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        int rc = utofu_prepare_put_piggyback8(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), detail::piggyback_of(value), rmt.value(),
            sizeof(T), edata, flags.bits(), to.next(1, "utofu_prepare_put_piggyback8: no room"),
            &bytes);
        to.added(rc, bytes, "utofu_prepare_put_piggyback8");
    }

    template <class Lcl, class Rmt>
    void prepare_get(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                     std::size_t count, std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        detail::check_types<Rmt, Lcl>();
        int rc = utofu_prepare_get(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                   rmt.value(), detail::bytes_of<Lcl>(count), edata, flags.bits(),
                                   to.next(1, "utofu_prepare_get: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_get");
    }

    template <class Lcl, class Rmt>
    void prepare_get_gap(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                         std::size_t count, std::uint64_t edata, OnesidedFlags flags,
                         std::size_t mtu, std::size_t gap) const
    {
        std::size_t bytes = 0;

        detail::check_types<Rmt, Lcl>();
        int rc =
            utofu_prepare_get_gap(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(),
                                  rmt.value(), detail::bytes_of<Lcl>(count), edata, flags.bits(),
                                  mtu, gap, to.next(1, "utofu_prepare_get_gap: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_get_gap");
    }

    template <class Lcl, class Rmt>
    void prepare_get_stride(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                            std::size_t count, std::size_t stride, std::size_t num_blocks,
                            std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        detail::check_types<Rmt, Lcl>();
        int rc = utofu_prepare_get_stride(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
            detail::bytes_of<Lcl>(count), detail::bytes_of<Lcl>(stride), num_blocks, edata,
            flags.bits(), to.next(num_blocks, "utofu_prepare_get_stride: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_get_stride");
    }

    template <class Lcl, class Rmt>
    void prepare_get_stride_gap(Descriptors &to, VcqId rmt_vcq_id, Stadd<Lcl> lcl, Stadd<Rmt> rmt,
                                std::size_t count, std::size_t stride, std::size_t num_blocks,
                                std::uint64_t edata, OnesidedFlags flags, std::size_t mtu,
                                std::size_t gap) const
    {
        std::size_t bytes = 0;

        detail::check_types<Rmt, Lcl>();
        int rc = utofu_prepare_get_stride_gap(
            hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), lcl.value(), rmt.value(),
            detail::bytes_of<Lcl>(count), detail::bytes_of<Lcl>(stride), num_blocks, edata,
            flags.bits(), mtu, gap, to.next(num_blocks, "utofu_prepare_get_stride_gap: no room"),
            &bytes);
        to.added(rc, bytes, "utofu_prepare_get_stride_gap");
    }

    template <class T>
    void prepare_armw(Descriptors &to, VcqId rmt_vcq_id, ArmwOp op, T operand, Stadd<T> rmt,
                      std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;
        void *at = to.next(1, "utofu_prepare_armw: no room");
        int rc;

        detail::check_word<T>();
        if constexpr (sizeof(T) == 4)
            rc = utofu_prepare_armw4(
                hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id), static_cast<utofu_armw_op>(op),
                static_cast<std::uint32_t>(operand), rmt.value(), edata, flags.bits(), at, &bytes);
        else
            rc = utofu_prepare_armw8(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                     static_cast<utofu_armw_op>(op), detail::word_of(operand),
                                     rmt.value(), edata, flags.bits(), at, &bytes);
        to.added(rc, bytes, sizeof(T) == 4 ? "utofu_prepare_armw4" : "utofu_prepare_armw8");
    }

    template <class T>
    void prepare_cswap(Descriptors &to, VcqId rmt_vcq_id, T old_value, T new_value, Stadd<T> rmt,
                       std::uint64_t edata = 0, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;
        void *at = to.next(1, "utofu_prepare_cswap: no room");
        int rc;

        detail::check_word<T>();
        if constexpr (sizeof(T) == 4)
            rc = utofu_prepare_cswap4(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                      static_cast<std::uint32_t>(old_value),
                                      static_cast<std::uint32_t>(new_value), rmt.value(), edata,
                                      flags.bits(), at, &bytes);
        else
            rc = utofu_prepare_cswap8(hdl_, static_cast<utofu_vcq_id_t>(rmt_vcq_id),
                                      detail::word_of(old_value), detail::word_of(new_value),
                                      rmt.value(), edata, flags.bits(), at, &bytes);
        to.added(rc, bytes, sizeof(T) == 4 ? "utofu_prepare_cswap4" : "utofu_prepare_cswap8");
    }

    void prepare_nop(Descriptors &to, OnesidedFlags flags = {}) const
    {
        std::size_t bytes = 0;

        int rc =
            utofu_prepare_nop(hdl_, flags.bits(), to.next(1, "utofu_prepare_nop: no room"), &bytes);
        to.added(rc, bytes, "utofu_prepare_nop");
    }

    [[nodiscard]] bool post_toq(const Descriptors &descriptors, void *cbdata = nullptr) const
    {
        return detail::is_submitted(
            utofu_post_toq(hdl_, descriptors.data(), descriptors.size_bytes(), cbdata),
            "utofu_post_toq");
    }

    /* True: there was an entry, and cbdata is its. Throws TcqError for one with an error. */
    bool poll_tcq(void *&cbdata) const
    {
        int rc = utofu_poll_tcq(hdl_, 0, &cbdata);

        if (rc == UTOFU_SUCCESS)
            return true;
        if (rc != UTOFU_ERR_NOT_FOUND)
            detail::fail_tcq(rc, cbdata);
        return false;
    }

    std::optional<void *> poll_tcq() const
    {
        void *cbdata = nullptr;

        if (poll_tcq(cbdata))
            return cbdata;
        return std::nullopt;
    }

    /* True: there was a notice, and it is written. Throws MrqError for one with an error. */
    bool poll_mrq(Notice &notice) const
    {
        int rc = utofu_poll_mrq(hdl_, 0, &notice);

        if (rc == UTOFU_SUCCESS)
            return true;
        if (rc != UTOFU_ERR_NOT_FOUND)
            detail::fail_mrq(rc, notice);
        return false;
    }

    std::optional<Notice> poll_mrq() const
    {
        Notice notice;

        if (poll_mrq(notice))
            return notice;
        return std::nullopt;
    }

    std::size_t query_num_unread_tcq() const
    {
        std::size_t count = 0;

        detail::check(utofu_query_num_unread_tcq(hdl_, &count), "utofu_query_num_unread_tcq");
        return count;
    }

    std::size_t query_num_unread_mrq() const
    {
        std::size_t count = 0;

        detail::check(utofu_query_num_unread_mrq(hdl_, &count), "utofu_query_num_unread_mrq");
        return count;
    }

  private:
    VcqHdl hdl_ = 0;
};

/* A VCQ that is freed at the end of the object's life. */
class Vcq : public VcqView
{
  public:
    Vcq() noexcept = default; /* none */
    explicit Vcq(TniId tni_id, VcqFlags flags = {})
    {
        VcqHdl hdl = 0;

        detail::check(utofu_create_vcq(tni_id, flags.bits(), &hdl), "utofu_create_vcq");
        *this = adopt(hdl);
    }
    static Vcq with_cmp_id(TniId tni_id, CmpId cmp_id, VcqFlags flags = {})
    {
        VcqHdl hdl = 0;

        detail::check(utofu_create_vcq_with_cmp_id(tni_id, cmp_id, flags.bits(), &hdl),
                      "utofu_create_vcq_with_cmp_id");
        return adopt(hdl);
    }
    /* Becomes the owner of a VCQ that C has created. */
    static Vcq adopt(VcqHdl hdl) noexcept
    {
        Vcq vcq;

        static_cast<VcqView &>(vcq) = VcqView(hdl);
        vcq.owned_ = true;
        return vcq;
    }
    /* Calls on an object whose VCQ was moved, closed or released throw an Error of
     * invalid_vcq_hdl. */
    Vcq(Vcq &&other) noexcept
        : VcqView(other.take_hdl()), owned_(std::exchange(other.owned_, false))
    {
    }
    Vcq &operator=(Vcq &&other) noexcept
    {
        if (this != &other) {
            end();
            static_cast<VcqView &>(*this) = VcqView(other.take_hdl());
            owned_ = std::exchange(other.owned_, false);
        }
        return *this;
    }
    ~Vcq()
    {
        end();
    }
    bool is_owner() const noexcept
    {
        return owned_;
    }
    /* No longer the owner. */
    VcqHdl release() noexcept
    {
        owned_ = false;
        return take_hdl();
    }
    void close()
    {
        detail::check(end(), "utofu_free_vcq");
    }

  private:
    VcqHdl take_hdl() noexcept
    {
        VcqHdl taken = hdl();

        static_cast<VcqView &>(*this) = VcqView();
        return taken;
    }
    int end() noexcept
    {
        return std::exchange(owned_, false) ? utofu_free_vcq(take_hdl()) : UTOFU_SUCCESS;
    }

    bool owned_ = false;
};

/* A registration of memory on a VCQ, which ends with the object's life. The memory belongs to
 * somebody else. Of const objects it is registered with reg_mem_flag::read_only. The registration
 * ends before the VCQ: an object that is declared after its Vcq is destroyed before it. */
template <class T> class Memory
{
  public:
    Memory() noexcept = default; /* none */
    Memory(VcqView vcq, Span<T> objects, RegMemFlags flags = {}) : vcq_(vcq), objects_(objects)
    {
        utofu_stadd_t stadd = 0;

        detail::check(utofu_reg_mem(vcq.hdl(), address(objects),
                                    detail::bytes_of<T>(objects.size()), bits(flags), &stadd),
                      "utofu_reg_mem");
        begin(stadd);
    }
    static Memory with_stag(VcqView vcq, Span<T> objects, unsigned int stag, RegMemFlags flags = {})
    {
        utofu_stadd_t stadd = 0;
        Memory memory;

        detail::check(utofu_reg_mem_with_stag(vcq.hdl(), address(objects),
                                              detail::bytes_of<T>(objects.size()), stag,
                                              bits(flags), &stadd),
                      "utofu_reg_mem_with_stag");
        memory.vcq_ = vcq;
        memory.objects_ = objects;
        memory.begin(stadd);
        return memory;
    }
    Memory(Memory &&other) noexcept
        : vcq_(other.vcq_), objects_(other.objects_), stadd_(other.stadd_),
          registered_(std::exchange(other.registered_, false))
    {
    }
    Memory &operator=(Memory &&other) noexcept
    {
        if (this != &other) {
            end();
            vcq_ = other.vcq_;
            objects_ = other.objects_;
            stadd_ = other.stadd_;
            registered_ = std::exchange(other.registered_, false);
        }
        return *this;
    }
    ~Memory()
    {
        end();
    }
    /* The STADD of the first object, or of object i. */
    Stadd<T> stadd(std::size_t i = 0) const noexcept
    {
        return stadd_ + i;
    }
    Span<T> objects() const noexcept
    {
        return objects_;
    }
    T &operator[](std::size_t i) const noexcept
    {
        return objects_[i];
    }
    std::size_t size() const noexcept
    {
        return objects_.size();
    }
    bool is_registered() const noexcept
    {
        return registered_;
    }
    void close()
    {
        detail::check(end(), "utofu_dereg_mem");
    }

  private:
    static void *address(Span<T> objects) noexcept
    {
        return const_cast<std::remove_const_t<T> *>(objects.data());
    }
    static unsigned long int bits(RegMemFlags flags) noexcept
    {
        return (std::is_const_v<T> ? flags | reg_mem_flag::read_only : flags).bits();
    }
    void begin(utofu_stadd_t stadd) noexcept
    {
        stadd_ = Stadd<T>(stadd);
        registered_ = true;
    }
    int end() noexcept
    {
        return std::exchange(registered_, false) ? utofu_dereg_mem(vcq_.hdl(), stadd_.value(), 0)
                                                 : UTOFU_SUCCESS;
    }

    VcqView vcq_;
    Span<T> objects_;
    Stadd<T> stadd_;
    bool registered_ = false;
};

template <class C, class... More>
Memory(VcqView, C &, More...)
    -> Memory<std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>>;
template <class T, class... More> Memory(VcqView, Span<T>, More...) -> Memory<T>;

/*
 * Barrier communication
 */

/* Barrier gates of a TNI, which are freed at the end of the object's life. Their ids are written to
 * memory of the caller, which lives as long as the object. The first one is the start/end gate.
 * barrier() and reduce() return false for UTOFU_ERR_BUSY: the one before is not at its end. */
class Vbg
{
  public:
    Vbg() noexcept = default; /* none */
    Vbg(TniId tni_id, Span<VbgId> ids, VbgFlags flags = {}) : ids_(ids)
    {
        detail::check(utofu_alloc_vbg(tni_id, ids.size(), flags.bits(), ids.data()),
                      "utofu_alloc_vbg");
        owned_ = true;
    }
    Vbg(Vbg &&other) noexcept
        : ids_(other.ids_), values_(other.values_), owned_(std::exchange(other.owned_, false))
    {
    }
    Vbg &operator=(Vbg &&other) noexcept
    {
        if (this != &other) {
            end();
            ids_ = other.ids_;
            values_ = other.values_;
            owned_ = std::exchange(other.owned_, false);
        }
        return *this;
    }
    ~Vbg()
    {
        end();
    }
    Span<VbgId> ids() const noexcept
    {
        return ids_;
    }
    VbgId id() const noexcept
    {
        return ids_[0];
    }
    bool is_owner() const noexcept
    {
        return owned_;
    }
    void close()
    {
        detail::check(end(), "utofu_free_vbg");
    }
    /* Some of the gates or all of them, the start/end gate first. */
    void set_vbg(Span<const VbgSetting> settings) const
    {
        detail::check(utofu_set_vbg(const_cast<VbgSetting *>(settings.data()), settings.size()),
                      "utofu_set_vbg");
    }
    [[nodiscard]] bool barrier()
    {
        return detail::is_submitted(utofu_barrier(id(), 0), "utofu_barrier");
    }
    [[nodiscard]] bool reduce(ReduceOp op, Span<const std::uint64_t> values)
    {
        int rc = utofu_reduce_uint64(id(), static_cast<utofu_reduce_op>(op),
                                     const_cast<std::uint64_t *>(values.data()), values.size(), 0);

        return started(rc, values.size(), "utofu_reduce_uint64");
    }
    [[nodiscard]] bool reduce(ReduceOp op, Span<const double> values)
    {
        int rc = utofu_reduce_double(id(), static_cast<utofu_reduce_op>(op),
                                     const_cast<double *>(values.data()), values.size(), 0);

        return started(rc, values.size(), "utofu_reduce_double");
    }
    /* False: not complete yet. */
    [[nodiscard]] bool poll_barrier()
    {
        return is_complete(utofu_poll_barrier(id(), 0), "utofu_poll_barrier");
    }
    /* The result has as many values as reduce() was given. */
    [[nodiscard]] bool poll_reduce(Span<std::uint64_t> result)
    {
        check_room(result.size(), "utofu_poll_reduce_uint64: no room for the result");
        return is_complete(utofu_poll_reduce_uint64(id(), 0, result.data()),
                           "utofu_poll_reduce_uint64");
    }
    [[nodiscard]] bool poll_reduce(Span<double> result)
    {
        check_room(result.size(), "utofu_poll_reduce_double: no room for the result");
        return is_complete(utofu_poll_reduce_double(id(), 0, result.data()),
                           "utofu_poll_reduce_double");
    }

  private:
    static bool is_complete(int rc, const char *call)
    {
        return detail::is_done(rc, UTOFU_ERR_NOT_COMPLETED, call);
    }
    bool started(int rc, std::size_t values, const char *call)
    {
        bool is_started = detail::is_submitted(rc, call);

        if (is_started)
            values_ = values;
        return is_started;
    }
    void check_room(std::size_t values, const char *call) const
    {
        if (values < values_)
            detail::fail(UTOFU_ERR_INVALID_NUMBER, call);
    }
    int end() noexcept
    {
        return std::exchange(owned_, false) ? utofu_free_vbg(ids_.data(), ids_.size())
                                            : UTOFU_SUCCESS;
    }

    Span<VbgId> ids_;
    std::size_t values_ = 0; /* of the reduction that was started last */
    bool owned_ = false;
};

#ifdef UTOFU_EXT_H

/*
 * What this library has and Fugaku's does not
 */

inline constexpr std::size_t profile_name_max = UTOFU_PROFILE_NAME_MAX;
inline constexpr std::chrono::microseconds forever{-1};

using Job = utofu_job;

struct RankNode {
    std::uint32_t node;
    Coords coords;
};

/* A region of the program, until the end of the object's life: Region region("solver"); The name
 * stays where it is until then. */
class Region
{
  public:
    explicit Region(const char *name) : name_(name)
    {
        detail::check(utofu_profile_start(name), "utofu_profile_start");
    }
    Region(const Region &) = delete;
    Region &operator=(const Region &) = delete;
    ~Region()
    {
        utofu_profile_stop(name_);
    }

  private:
    const char *name_;
};

/* Tells a recording that the program has seen these bytes change, by reading memory. */
template <class T> void profile_seen(Stadd<T> stadd, std::size_t length)
{
    detail::check(utofu_profile_seen(stadd.value(), length), "utofu_profile_seen");
}

/* True: one of the VCQs may have something to poll. False: the time is over. */
[[nodiscard]] inline bool wait_vcqs(Span<const VcqHdl> vcqs,
                                    std::chrono::microseconds timeout = forever)
{
    int rc = utofu_wait_vcqs(vcqs.data(), vcqs.size(), timeout.count());

    return detail::is_done(rc, UTOFU_ERR_NOT_FOUND, "utofu_wait_vcqs");
}

inline void wake_vcq(VcqView vcq)
{
    detail::check(utofu_wake_vcq(vcq.hdl()), "utofu_wake_vcq");
}

inline Job query_job()
{
    Job job{};

    detail::check(utofu_query_job(&job), "utofu_query_job");
    return job;
}

inline RankNode query_rank_node(std::uint32_t rank)
{
    RankNode place{};

    detail::check(utofu_query_rank_node(rank, &place.node, place.coords.data()),
                  "utofu_query_rank_node");
    return place;
}

/* For libraries that Fugaku has, too: see utofu_ext.h. */
inline Job compat_job()
{
    Job job{};

    detail::check(utofu_compat_job(&job), "utofu_compat_job");
    return job;
}

inline RankNode compat_rank_node(std::uint32_t rank)
{
    RankNode place{};

    detail::check(utofu_compat_rank_node(rank, &place.node, place.coords.data()),
                  "utofu_compat_rank_node");
    return place;
}

#endif

} // namespace utofu

#endif
