// The two kinds of expression in a definition, over whole numbers with Python's rounding of / and %.
// What does not fit in int64, or divides by zero, throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace taf {

// Name of a variable -> its place among the values that Evaluate is given.
using Slots = std::map<std::string, size_t, std::less<>>;

// A value of the host tiling: what schedule/tiling.py prints ("Min((s0 * 4), CeilDiv(room, 2))").
class TilingExpression {
public:
    // Throws Error for anything else, and for a name that has no slot.
    static TilingExpression Parse(std::string_view text, const Slots& slots);

    int64_t Evaluate(const std::vector<int64_t>& values) const;
    bool IsZero() const;  // the constant 0

    enum class Kind {
        kNumber, kVariable, kAdd, kSub, kMul, kDiv, kMod, kMin, kMax, kCeilDiv, kRoundUp, kRoundDown, kSelect
    };
    struct Node {
        Kind kind;
        int64_t number;  // the number, or the slot of the variable
        size_t args[3];  // nodes before this one
    };

private:
    std::vector<Node> nodes_;  // the last one is the value
};

// A size of a tensor: what loop/expr.py prints ("64*s0 + 3", "floor(s0/2)"); fractions occur inside only.
class SizeExpression {
public:
    static SizeExpression Parse(std::string_view text, const Slots& slots);

    int64_t Evaluate(const std::vector<int64_t>& values) const;
    const std::vector<size_t>& Variables() const { return variables_; }  // slots of the variables it reads

    enum class Kind { kNumber, kVariable, kAdd, kSub, kMul, kDiv, kNegate, kPower, kFloor, kMod, kMin, kMax };
    struct Node {
        Kind kind;
        int64_t number;  // the number, the slot, or the exponent
        size_t args[2];
    };

private:
    std::vector<Node> nodes_;
    std::vector<size_t> variables_;
};

}  // namespace taf
