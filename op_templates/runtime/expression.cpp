#include "expression.h"

#include <algorithm>

#include "arithmetic.h"
#include "tokens.h"

namespace taf {

namespace {

// Every operation is in parentheses but for the outermost, so that there is no precedence.
class TilingParser {
public:
    using Kind = TilingExpression::Kind;

    TilingParser(std::string_view text, const Slots& slots, std::vector<TilingExpression::Node>& nodes)
        : tokens_(text, true), slots_(slots), nodes_(nodes) {}

    void Run() {
        Operation(0);
        if (!tokens_.AtEnd()) {
            tokens_.Fail("something after the end");
        }
    }

private:
    size_t Add(Kind kind, int64_t number, size_t a = 0, size_t b = 0, size_t c = 0) {
        nodes_.push_back({kind, number, {a, b, c}});
        return nodes_.size() - 1;
    }

    size_t Operation(size_t depth) {
        if (depth > Tokens::kMaxDepth) {
            tokens_.Fail("nested too deeply");
        }
        const size_t left = Operand(depth);
        if (tokens_.Take(">")) {
            if (!tokens_.IsNumber() || tokens_.TakeNumber() != 0) {
                tokens_.Fail("expected 0 after >");
            }
            tokens_.Need("?");
            const size_t yes = Operand(depth);
            tokens_.Need(":");
            return Add(Kind::kSelect, 0, left, yes, Operand(depth));
        }
        static constexpr struct { const char* sign; Kind kind; } kInfix[] = {
            {"+", Kind::kAdd}, {"-", Kind::kSub}, {"*", Kind::kMul}, {"/", Kind::kDiv}, {"%", Kind::kMod}};
        for (const auto& infix : kInfix) {
            if (tokens_.Take(infix.sign)) {
                return Add(infix.kind, 0, left, Operand(depth));
            }
        }
        return left;
    }

    size_t Operand(size_t depth) {
        if (tokens_.Take("(")) {
            const size_t inner = Operation(depth + 1);
            tokens_.Need(")");
            return inner;
        }
        const bool negative = tokens_.Take("-");
        if (tokens_.IsNumber()) {
            const int64_t number = tokens_.TakeNumber();
            return Add(Kind::kNumber, negative ? -number : number);
        }
        if (negative || !tokens_.IsName()) {
            tokens_.Fail("expected a number or a name");
        }
        const std::string_view name = tokens_.TakeName();
        return tokens_.Take("(") ? Call(name, depth) : Variable(name);
    }

    size_t Call(std::string_view name, size_t depth) {
        static constexpr struct { const char* name; Kind kind; } kCalls[] = {
            {"Min", Kind::kMin}, {"Max", Kind::kMax}, {"CeilDiv", Kind::kCeilDiv}, {"FloorDiv", Kind::kDiv},
            {"RoundUp", Kind::kRoundUp}, {"RoundDown", Kind::kRoundDown}};
        for (const auto& call : kCalls) {
            if (name == call.name) {
                if (depth >= Tokens::kMaxDepth) {
                    tokens_.Fail("nested too deeply");
                }
                const size_t first = Operand(depth + 1);
                tokens_.Need(",");
                const size_t second = Operand(depth + 1);
                tokens_.Need(")");
                return Add(call.kind, 0, first, second);
            }
        }
        tokens_.Fail("unknown function " + std::string(name));
    }

    size_t Variable(std::string_view name) {
        const auto found = slots_.find(name);
        if (found == slots_.end()) {
            tokens_.Fail(std::string(name) + " is neither a symbol nor an earlier step");
        }
        return Add(Kind::kVariable, static_cast<int64_t>(found->second));
    }

    Tokens tokens_;
    const Slots& slots_;
    std::vector<TilingExpression::Node>& nodes_;
};

// Python's precedence: ** above a leading -, that above * and /, those above + and -.
class SizeParser {
public:
    using Kind = SizeExpression::Kind;

    SizeParser(std::string_view text, const Slots& slots, std::vector<SizeExpression::Node>& nodes)
        : tokens_(text, false), slots_(slots), nodes_(nodes) {}

    void Run() {
        Sum(0);
        if (!tokens_.AtEnd()) {
            tokens_.Fail("something after the end");
        }
    }

private:
    size_t Add(Kind kind, int64_t number, size_t a = 0, size_t b = 0) {
        nodes_.push_back({kind, number, {a, b}});
        return nodes_.size() - 1;
    }

    size_t Sum(size_t depth) {
        if (depth > Tokens::kMaxDepth) {
            tokens_.Fail("nested too deeply");
        }
        size_t left = Product(depth);
        for (;;) {
            if (tokens_.Take("+")) {
                left = Add(Kind::kAdd, 0, left, Product(depth));
            } else if (tokens_.Take("-")) {
                left = Add(Kind::kSub, 0, left, Product(depth));
            } else {
                return left;
            }
        }
    }

    size_t Product(size_t depth) {
        size_t left = Signed(depth);
        for (;;) {
            if (tokens_.Take("*")) {
                left = Add(Kind::kMul, 0, left, Signed(depth));
            } else if (tokens_.Take("/")) {
                left = Add(Kind::kDiv, 0, left, Signed(depth));
            } else {
                return left;
            }
        }
    }

    size_t Signed(size_t depth) {
        size_t signs = 0;
        while (tokens_.Take("-")) {
            ++signs;
        }
        const size_t value = Power(depth);
        return signs % 2 == 0 ? value : Add(Kind::kNegate, 0, value);
    }

    size_t Power(size_t depth) {
        const size_t base = Atom(depth);
        if (!tokens_.Take("**")) {
            return base;
        }
        const int64_t exponent = tokens_.IsNumber() ? tokens_.TakeNumber() : 0;
        if (exponent < 1 || exponent > 16) {
            tokens_.Fail("expected an exponent of 1 to 16");
        }
        return Add(Kind::kPower, exponent, base);
    }

    size_t Atom(size_t depth) {
        if (tokens_.Take("(")) {
            const size_t inner = Sum(depth + 1);
            tokens_.Need(")");
            return inner;
        }
        if (tokens_.IsNumber()) {
            return Add(Kind::kNumber, tokens_.TakeNumber());
        }
        if (!tokens_.IsName()) {
            tokens_.Fail("expected a number or a name");
        }
        const std::string_view name = tokens_.TakeName();
        return tokens_.Take("(") ? Call(name, depth) : Variable(name);
    }

    size_t Call(std::string_view name, size_t depth) {
        const size_t first = Sum(depth + 1);
        if (name == "floor") {
            tokens_.Need(")");
            return Add(Kind::kFloor, 0, first);
        }
        if (name == "Mod") {
            tokens_.Need(",");
            const size_t second = Sum(depth + 1);
            tokens_.Need(")");
            return Add(Kind::kMod, 0, first, second);
        }
        if (name != "Min" && name != "Max") {
            tokens_.Fail("unknown function " + std::string(name));
        }
        size_t best = first;
        while (tokens_.Take(",")) {
            const size_t next = Sum(depth + 1);
            best = Add(name == "Min" ? Kind::kMin : Kind::kMax, 0, best, next);
        }
        tokens_.Need(")");
        return best;
    }

    size_t Variable(std::string_view name) {
        const auto found = slots_.find(name);
        if (found == slots_.end()) {
            tokens_.Fail("symbol " + std::string(name) + " is not declared");
        }
        return Add(Kind::kVariable, static_cast<int64_t>(found->second));
    }

    Tokens tokens_;
    const Slots& slots_;
    std::vector<SizeExpression::Node>& nodes_;
};

}  // namespace

TilingExpression TilingExpression::Parse(std::string_view text, const Slots& slots) {
    TilingExpression made;
    TilingParser(text, slots, made.nodes_).Run();
    return made;
}

bool TilingExpression::IsZero() const {
    return nodes_.size() == 1 && nodes_[0].kind == Kind::kNumber && nodes_[0].number == 0;
}

int64_t TilingExpression::Evaluate(const std::vector<int64_t>& values) const {
    std::vector<int64_t> results;
    results.reserve(nodes_.size());
    for (const Node& node : nodes_) {
        const auto arg = [&](size_t i) { return results[node.args[i]]; };
        const auto rounded_up = [&] { return Sub(0, FloorDiv(Sub(0, arg(0)), arg(1))); };
        int64_t value = 0;
        switch (node.kind) {
            case Kind::kNumber: value = node.number; break;
            case Kind::kVariable: value = values.at(static_cast<size_t>(node.number)); break;
            case Kind::kAdd: value = Add(arg(0), arg(1)); break;
            case Kind::kSub: value = Sub(arg(0), arg(1)); break;
            case Kind::kMul: value = Mul(arg(0), arg(1)); break;
            case Kind::kDiv: value = FloorDiv(arg(0), arg(1)); break;
            case Kind::kMod: value = FloorMod(arg(0), arg(1)); break;
            case Kind::kMin: value = std::min(arg(0), arg(1)); break;
            case Kind::kMax: value = std::max(arg(0), arg(1)); break;
            case Kind::kCeilDiv: value = rounded_up(); break;
            case Kind::kRoundUp: value = Mul(rounded_up(), arg(1)); break;
            case Kind::kRoundDown: value = Mul(FloorDiv(arg(0), arg(1)), arg(1)); break;
            case Kind::kSelect: value = arg(0) > 0 ? arg(1) : arg(2); break;
        }
        results.push_back(value);
    }
    return results.back();
}

SizeExpression SizeExpression::Parse(std::string_view text, const Slots& slots) {
    SizeExpression made;
    SizeParser(text, slots, made.nodes_).Run();
    for (const Node& node : made.nodes_) {
        if (node.kind == Kind::kVariable) {
            made.variables_.push_back(static_cast<size_t>(node.number));
        }
    }
    return made;
}

int64_t SizeExpression::Evaluate(const std::vector<int64_t>& values) const {
    std::vector<Fraction> results;
    results.reserve(nodes_.size());
    for (const Node& node : nodes_) {
        const auto arg = [&](size_t i) { return results[node.args[i]]; };
        Fraction value;
        switch (node.kind) {
            case Kind::kNumber: value.over = node.number; break;
            case Kind::kVariable: value.over = values.at(static_cast<size_t>(node.number)); break;
            case Kind::kAdd: value = arg(0) + arg(1); break;
            case Kind::kSub: value = arg(0) - arg(1); break;
            case Kind::kMul: value = arg(0) * arg(1); break;
            case Kind::kDiv: value = Quotient(arg(0), arg(1)); break;
            case Kind::kNegate: value = -arg(0); break;
            case Kind::kPower:
                value = arg(0);
                for (int64_t i = 1; i < node.number; ++i) {
                    value = value * arg(0);
                }
                break;
            case Kind::kFloor: value = Floor(arg(0)); break;
            case Kind::kMod: value = arg(0) - arg(1) * Floor(Quotient(arg(0), arg(1))); break;
            case Kind::kMin: value = arg(1) < arg(0) ? arg(1) : arg(0); break;
            case Kind::kMax: value = arg(0) < arg(1) ? arg(1) : arg(0); break;
        }
        results.push_back(value);
    }
    if (results.back().under != 1) {
        throw Error("a size is not a whole number");
    }
    return results.back().over;
}

}  // namespace taf
