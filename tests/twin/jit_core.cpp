// Answers questions about the CANN-free part of op_templates/runtime, one line each:
//   t|a=1,b=2|text      value of a tiling expression
//   s|a=1,b=2|text      value of a size expression
//   l|soc|hex|2,3;4     launch of a definition for input shapes
//   i|soc|hex|2,-1;?    output shapes for shapes that are not all known
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "error.h"
#include "plan.h"

namespace {

std::vector<std::string> Split(const std::string& text, char sign) {
    std::vector<std::string> parts;
    std::string part;
    for (const char c : text) {
        if (c == sign) {
            parts.push_back(part);
            part.clear();
        } else {
            part += c;
        }
    }
    parts.push_back(part);
    return parts;
}

std::string Join(const std::vector<int64_t>& values) {
    std::string text;
    for (const int64_t v : values) {
        text += (text.empty() ? "" : ",") + std::to_string(v);
    }
    return text;
}

taf::Dims DimsOf(const std::string& text) {
    taf::Dims dims;
    for (const std::string& part : Split(text, ',')) {
        if (!part.empty()) {
            dims.push_back(std::stoll(part));
        }
    }
    return dims;
}

std::string Bytes(const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) {
        bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
    return bytes;
}

std::string Answer(const std::vector<std::string>& asked) {
    if (asked[0] == "t" || asked[0] == "s") {
        taf::Slots slots;
        std::vector<int64_t> values;
        for (const std::string& pair : Split(asked[1], ',')) {
            if (!pair.empty()) {
                slots.emplace(pair.substr(0, pair.find('=')), values.size());
                values.push_back(std::stoll(pair.substr(pair.find('=') + 1)));
            }
        }
        return std::to_string(asked[0] == "t" ? taf::TilingExpression::Parse(asked[2], slots).Evaluate(values)
                                              : taf::SizeExpression::Parse(asked[2], slots).Evaluate(values));
    }
    taf::Plan plan(taf::Definition::Read(Bytes(asked[2]), asked[1]));
    const std::vector<std::string> shapes = plan.Of().inputs.empty() ? std::vector<std::string>() : Split(asked[3], ';');
    std::string told = plan.Of().entry;
    if (asked[0] == "i") {
        std::vector<std::optional<taf::Dims>> inputs;
        for (const std::string& shape : shapes) {
            inputs.push_back(shape == "?" ? std::nullopt : std::optional<taf::Dims>(DimsOf(shape)));
        }
        const auto outputs = plan.Infer(inputs);
        for (size_t i = 0; outputs && i < outputs->size(); ++i) {
            told += "|" + Join((*outputs)[i]);
        }
        return outputs ? told : told + "|?";
    }
    std::vector<taf::Dims> inputs;
    for (const std::string& shape : shapes) {
        inputs.push_back(DimsOf(shape));
    }
    const auto launch = plan.For(inputs);
    if (plan.For(inputs) != launch) {
        throw std::logic_error("the same shapes were planned twice");
    }
    told += "|" + std::to_string(launch->block_dim) + "|" + std::to_string(launch->tiling_key) + "|" +
            std::to_string(launch->workspace_bytes) + "|" + Join(launch->tiling);
    for (const taf::Dims& dims : launch->outputs) {
        told += "|" + Join(dims);
    }
    return told;
}

}  // namespace

int main() {
    std::ios::sync_with_stdio(false);
    for (std::string line; std::getline(std::cin, line);) {
        try {
            std::cout << Answer(Split(line, '|')) << "\n";
        } catch (const taf::Error& error) {
            std::string text = error.what();
            for (char& c : text) {
                c = c >= ' ' && c <= '~' ? c : '?';
            }
            std::cout << "error: " << text << "\n";
        }
    }
    return 0;
}
