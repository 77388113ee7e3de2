#include "neurim/evaluate/bigram.h"

#include <cmath>

#include "neurim/base/error.h"

namespace neurim {

Bigram::Bigram(std::span<const std::int32_t> text, std::int64_t characters)
    : characters_(characters), before_(static_cast<std::size_t>(characters)) {
  for (const std::int32_t character : text)
    require(character >= 0 && character < characters, "bigram: ", character, " is no character; there are ",
            characters);
  for (std::size_t i = 1; i < text.size(); ++i) {
    ++pairs_[text[i - 1] * characters + text[i]];
    ++before_[text[i - 1]];
  }
}

double Bigram::bits(std::int32_t previous, std::int32_t next) const {
  const auto met = pairs_.find(previous * characters_ + next);
  const std::int64_t pair = met == pairs_.end() ? 0 : met->second;
  return std::log2(static_cast<double>(before_[previous] + characters_) / static_cast<double>(pair + 1));
}

}  // namespace neurim
