// Splits the text of an expression into numbers, names and signs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "error.h"

namespace taf {

class Tokens {
public:
    static constexpr size_t kMaxText = 16384;
    static constexpr size_t kMaxDepth = 200;

    // `long_suffix`: whether 5L is a number, as in C++.
    Tokens(std::string_view text, bool long_suffix) : text_(text), long_suffix_(long_suffix) {
        if (text.size() > kMaxText) {
            Fail("longer than 16384 characters");
        }
        Advance();
    }

    bool AtEnd() const { return kind_ == Kind::kEnd; }
    bool IsNumber() const { return kind_ == Kind::kNumber; }
    bool IsName() const { return kind_ == Kind::kName; }
    bool Is(std::string_view sign) const { return kind_ == Kind::kSign && token_ == sign; }

    bool Take(std::string_view sign) {
        if (!Is(sign)) {
            return false;
        }
        Advance();
        return true;
    }

    void Need(std::string_view sign) {
        if (!Take(sign)) {
            Fail("expected " + std::string(sign) + ", found " + (AtEnd() ? "the end" : std::string(token_)));
        }
    }

    int64_t TakeNumber() {
        int64_t value = 0;
        for (const char digit : token_) {
            if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
                __builtin_add_overflow(value, int64_t{digit - '0'}, &value)) {
                Fail("a number that does not fit in 64 bits");
            }
        }
        Advance();
        return value;
    }

    std::string_view TakeName() {
        const std::string_view name = token_;
        Advance();
        return name;
    }

    [[noreturn]] void Fail(const std::string& problem) const {
        throw Error("not an expression: '" + std::string(text_.substr(0, 80)) + "' (" + problem + ")");
    }

private:
    enum class Kind { kEnd, kNumber, kName, kSign };

    static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
    static bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

    void Advance() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
            ++at_;
        }
        const size_t from = at_;
        if (from == text_.size()) {
            kind_ = Kind::kEnd;
            token_ = {};
            return;
        }
        const auto run = [this](auto belongs) {
            while (at_ < text_.size() && belongs(text_[at_])) {
                ++at_;
            }
        };
        if (IsDigit(text_[at_])) {
            run(IsDigit);
            kind_ = Kind::kNumber;
            token_ = text_.substr(from, at_ - from);
            if (long_suffix_ && at_ < text_.size() && text_[at_] == 'L') {
                ++at_;
            }
            if (at_ < text_.size() && (IsDigit(text_[at_]) || IsLetter(text_[at_]))) {
                Fail("a number with letters");
            }
            return;
        }
        if (IsLetter(text_[at_])) {
            run([](char c) { return IsDigit(c) || IsLetter(c); });
            kind_ = Kind::kName;
        } else {
            at_ += text_.substr(from, 2) == "**" ? 2 : 1;
            kind_ = Kind::kSign;
        }
        token_ = text_.substr(from, at_ - from);
    }

    std::string_view text_;
    bool long_suffix_;
    size_t at_ = 0;
    Kind kind_ = Kind::kEnd;
    std::string_view token_;
};

}  // namespace taf
