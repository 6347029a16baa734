// What the API headers and the checking runtime (libtwin_rt) share: plain records and extern functions.
// Kernels only ever see thin wrappers around these, so a kernel compiles in a fraction of a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tw {

enum DT : uint8_t { F32, F16, BF16, F64, I8, U8, I16, U16, I32, U32, I64, U64, DT_COUNT };

// A piece of UB as a LocalTensor sees it. `buf` indexes the block's buffer table, `gen` is the allocation it came from.
struct Loc {
    uint32_t off = 0;    // byte offset in UB
    uint32_t bytes = 0;  // recorded length
    uint32_t gen = 0;
    uint8_t buf = 0;  // 0: no buffer
    uint8_t pos = 11;
    uint16_t user = 0;
};

// How a vector instruction says which lanes it works on.
struct Form {
    enum Kind : uint8_t { COUNT, CONT, BITS, REG };
    Kind kind = COUNT;
    int32_t repeat = 1;
    int64_t count = 0;           // COUNT: elements; CONT: leading elements of a repeat
    uint64_t bits[2] = {0, 0};   // BITS: low word first
};

inline Form count_form(int64_t count) {
    Form f;
    f.count = count;
    return f;
}
inline Form cont_form(uint64_t mask, int32_t repeat, bool set_mask) {
    Form f;
    f.kind = set_mask ? Form::CONT : Form::REG;
    f.count = static_cast<int64_t>(mask);
    f.repeat = repeat;
    return f;
}
inline Form bits_form(const uint64_t* mask, int32_t repeat, bool set_mask) {
    Form f;
    f.kind = set_mask ? Form::BITS : Form::REG;
    if (set_mask) {
        f.bits[0] = mask[0];
        f.bits[1] = mask[1];
    }
    f.repeat = repeat;
    return f;
}

// One vector operand: where, of what type, and its strides in 32 B blocks (ignored by the count form).
struct Opd {
    Loc loc;
    DT dt = F32;
    uint32_t blk = 1;
    uint32_t rep = 8;
};

// A repeat count that arrives as uint8_t in the real API, where a larger value wraps silently; here it is an error.
struct Repeat {
    template <typename N, typename = std::enable_if_t<std::is_integral_v<N>>>
    Repeat(N n) : value(static_cast<int64_t>(n)) {}
    operator int32_t() const { return value > 0x7fffffff || value < -0x7fffffff ? -1 : static_cast<int32_t>(value); }
    int64_t value;
};

struct Scalar {
    uint64_t raw = 0;
    bool flag = false;
};
template <typename T>
Scalar scalar_of(const T& v, bool flag = false) {
    Scalar s;
    __builtin_memcpy(&s.raw, &v, sizeof(T));
    s.flag = flag;
    return s;
}

enum class Op : uint8_t {
    Add, Sub, Mul, Div, Max, Min, And, Or, Xor, MulAddDst, FusedMulAdd,           // dst, src0, src1
    Exp, Ln, Sqrt, Rsqrt, Reciprocal, Abs, Relu, Not, Neg,                         // dst, src
    Adds, Muls, Maxs, Mins, ShiftLeft, ShiftRight, LeakyRelu, Axpy, Fill,          // with a scalar
    COUNT
};

// Everything below lives in the runtime library; kernels themselves are built with hidden symbols.
#pragma GCC visibility push(default)

// ---- scalars
extern "C" {
float twin_h2f(uint16_t bits);
uint16_t twin_f2h(float value);
uint16_t twin_d2h(double value);
uint16_t twin_f2b(float value);
}
[[noreturn]] void fail(const char* rule, const char* format, ...) __attribute__((format(printf, 2, 3)));

// ---- memory
uint8_t que_init(uint8_t src_pos, uint8_t dst_pos, uint32_t depth, uint32_t num, uint32_t len);
uint8_t tbuf_init(uint8_t pos, uint32_t len);
uint32_t buf_offset(uint8_t buf);
uint32_t buf_length(uint8_t buf);
Loc que_alloc(uint8_t que);
void que_enque(uint8_t que, const Loc& t);
Loc que_deque(uint8_t que);
void que_free(uint8_t que, const Loc& t);
int32_t que_count(uint8_t que);
bool que_vacant(uint8_t que);
bool que_idle(uint8_t que);
Loc tbuf_get(uint8_t buf, uint64_t bytes, uint64_t offset, bool whole);
Loc sub_loc(const Loc& t, uint64_t byte_offset);
void pipe_create();
void pipe_destroy();
void pipe_reset();
uint64_t ub_get(const Loc& t, uint64_t index, uint32_t size);
void ub_set(const Loc& t, uint64_t index, uint32_t size, uint64_t raw);
uint64_t ub_phys(const Loc& t);
uint64_t gm_get(const void* address, uint32_t size);
void gm_set(const void* address, uint32_t size, uint64_t raw);

// ---- synchronisation
int8_t event_alloc(uint8_t event);
void event_release(uint8_t event, int32_t id);
int8_t event_fetch(uint8_t event);
void flag_set(uint8_t event, int32_t id);
void flag_wait(uint8_t event, int32_t id);
void pipe_barrier(int pipe);
void sync_all_hard();
void sync_all_soft(const void* gm, uint64_t gm_bytes, const Loc& ub, int32_t used_cores);
void set_atomic(DT dt, int op);
void clear_atomic();

// ---- mask register
void mask_counter(bool on);
void mask_set(uint64_t high, uint64_t low, bool counter, uint32_t esize);
void mask_reset();

// ---- copies
struct CopyDims {
    uint64_t blocks, bytes;    // per block, bytes
    int64_t src_gap, dst_gap;  // bytes from the end of a block to the start of the next
};
struct Pad {
    bool present = false, is_pad = false, compact = false;
    uint32_t left = 0, right = 0;  // elements
    uint64_t value = 0;
};
void copy_in_count(const char* api, const Loc& dst, const void* src, uint32_t esize, uint64_t count);
void copy_out_count(const char* api, const void* dst, const Loc& src, DT dt, uint32_t esize, uint64_t count);
void copy_ub_count(const char* api, const Loc& dst, const Loc& src, uint32_t esize, uint64_t count);
void copy_in_blocks(const char* api, const Loc& dst, const void* src, uint32_t esize, const CopyDims& d, const Pad& pad);
void copy_out_blocks(const char* api, const void* dst, const Loc& src, DT dt, uint32_t esize, const CopyDims& d,
                     bool padded, bool compact);
void copy_ub_blocks(const char* api, const Loc& dst, const Loc& src, uint32_t esize, const CopyDims& d);
void set_pad_value(uint64_t raw);

// ---- vector instructions
void vec(const char* api, Op op, const Opd& dst, const Opd* src, int nsrc, const Scalar& s, const Form& f);
// `allowed`: bit m set when round mode m exists for the pair; kNeedsDeq when it works with SetDeqScale instead.
constexpr uint32_t kNeedsDeq = 1u << 31;
void cast(const char* api, const Opd& dst, const Opd& src, int mode, uint32_t allowed, const Form& f);
void set_deq_scale(uint16_t half_bits);
void compare(const char* api, const Opd& dst, const Opd& a, const Opd* b, const Scalar& s, int mode, const Form& f);
void select(const char* api, const Opd& dst, const Loc& mask, const Opd& a, const Opd* b, const Scalar& s, int mode,
            const Form& f);
void index_fill(const char* api, const Opd& dst, const Scalar& first, const Form& f);
void brcb(const Opd& dst, const Opd& src, int32_t repeat);
void copy_vec(const Opd& dst, const Opd& src, const Form& f);
void gather(const Opd& dst, const Loc& src, const Loc& offsets, uint32_t base, const Form& f);
void gather_mask(const Opd& dst, const Opd& src, const Loc* pattern, uint32_t builtin, bool reduce_mode, uint32_t mask,
                 uint32_t repeat, uint32_t pattern_rep, uint64_t* kept);
void transpose16(const Loc& dst, const Loc& src);
void trans5hd(const uint64_t* dst, const uint64_t* src, uint32_t esize, bool dst_high, bool src_high, uint32_t repeat,
              uint32_t dst_rep, uint32_t src_rep);

// ---- reductions
enum class Red : uint8_t { Sum, Max, Min };
void reduce_repeat(const char* api, Red red, const Opd& dst, const Opd& src, int order, const Form& f);
void reduce_block(const char* api, Red red, const Opd& dst, const Opd& src, const Form& f);
void reduce_pair(const char* api, const Opd& dst, const Opd& src, const Form& f);
void reduce_all(const char* api, Red red, const Loc& dst, const Opd& src, const Loc& tmp, bool index, const Form& f);
void reduce_pattern(const char* api, Red red, DT dt, const Loc& dst, const Loc& src, const Loc* tmp, uint32_t first,
                    uint32_t last, bool last_axis, bool reuse, bool pad);

// ---- high-level functions
enum class Fn : uint8_t {
    Tanh, Sigmoid, Erf, Erfc, Gelu, Silu, Swish, Power, Log, Log2, Log10, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh,
    Asinh, Acosh, Atanh, Floor, Ceil, Trunc, Round, Rint, Frac, Sign, Fmod, ExpHigh, ClampMax, ClampMin, Xor, COUNT
};
void high_level(const char* api, Fn fn, DT dt, const Loc& dst, const Loc* a, const Loc* b, const Scalar& s,
                const Loc* tmp, int64_t count, bool reuse);
void broadcast(DT dt, uint32_t esize, const Loc& dst, const Loc& src, const Loc* tmp, uint32_t dim, uint32_t axis,
               const uint32_t* dst_shape, const uint32_t* src_shape);

// ---- kernel
int64_t block_idx();
int64_t block_num();
uint64_t tiling_key();
bool tiling_key_is(uint64_t key);
void tiling_copy(void* to, const void* from, size_t bytes, size_t offset, size_t whole);
void kernel_type(int type);
void* user_workspace(void* workspace);
uint32_t ub_size();

#pragma GCC visibility pop

struct KernelInfo {
    uint32_t abi;
    uint32_t arch;
    uint32_t params;
    void (*call)(void** params);
    const char* name;
    const uint32_t* marks;  // what the kernel uses: kMarkSyncAll, kMarkAtomic
};
constexpr uint32_t kAbi = 1;
constexpr uint32_t kMarkSyncAll = 1, kMarkAtomic = 2;
inline uint32_t marks = 0;  // of this kernel; set before main by the templates that are instantiated

}  // namespace tw
