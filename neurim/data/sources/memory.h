// Images that are held decoded in memory.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/source.h"

namespace neurim {

/// The images of all parts, one after the other, all of one size.
class MemorySource : public Source {
 public:
  struct Part {
    std::string path;
    std::int64_t first = 0;            ///< the number of its first item
    std::vector<std::uint8_t> pixels;  ///< bytes of (items, height, width, channels)
  };

  MemorySource(ImageSize size, std::vector<Part> parts) : size_(size), parts_(std::move(parts)) {}

  std::string name(std::int64_t item) const override {
    const Part& part = of(item);
    return text(part.path, "[", item - part.first, "]");
  }
  StoredImage read(std::int64_t item, std::vector<std::byte>&) const override {
    const Part& part = of(item);
    const std::size_t at = static_cast<std::size_t>(item - part.first) * size_.bytes();
    return {std::as_bytes(std::span(part.pixels).subspan(at, size_.bytes())), size_};
  }
  std::optional<ImageSize> in_memory() const override { return size_; }

 private:
  const Part& of(std::int64_t item) const {
    std::size_t p = parts_.size() - 1;
    while (p > 0 && parts_[p].first > item) --p;
    return parts_[p];
  }

  ImageSize size_;
  std::vector<Part> parts_;
};

}  // namespace neurim
