#include "neurim/serve/run_log.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace neurim {

namespace {

constexpr std::size_t kMostPoints = 4096;
using Json = nlohmann::json;

/// The numbers of an epoch's line; none of any other.
std::map<std::string, double> numbers_of(const std::string& line) {
  std::map<std::string, double> out;
  const Json event = Json::parse(line, nullptr, false);
  if (!event.is_object() || event.value("event", "") != "epoch") return out;
  for (const auto& [name, value] : event.items())
    if (value.is_number()) out[name] = value.get<double>();
  return out;
}

}  // namespace

void RunLog::update() {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file_, error);
  if (error) return;
  if (size < read_) *this = RunLog(file_);
  std::ifstream stream(file_, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(read_));
  std::string block(1 << 20, '\0');
  while (stream.read(block.data(), static_cast<std::streamsize>(block.size())), stream.gcount() > 0) {
    const auto count = static_cast<std::size_t>(stream.gcount());
    read_ += count;
    for (std::size_t begin = 0; begin < count;) {
      const std::size_t end = block.find('\n', begin);
      if (end == std::string::npos || end >= count) {
        constexpr std::size_t kLongest = 1 << 20;  // what is longer is no line of ours
        if (rest_.size() < kLongest) rest_.append(block, begin, count - begin);
        break;
      }
      rest_.append(block, begin, end - begin);
      add(rest_);
      rest_.clear();
      begin = end + 1;
    }
  }
}

void RunLog::add(const std::string& line) {
  const std::map<std::string, double> epoch = numbers_of(line);
  const auto number = epoch.find("epoch");
  if (number == epoch.end()) return;
  if (epochs_++ % stride_ != 0) return;
  bool full = false;
  for (const auto& [name, value] : epoch)
    if (name != "epoch") {
      Points& points = curves_[name];
      points.emplace_back(number->second, value);
      full |= points.size() >= kMostPoints;
    }
  if (!full) return;
  stride_ *= 2;
  for (auto& [name, points] : curves_) {
    for (std::size_t i = 0; 2 * i < points.size(); ++i) points[i] = points[2 * i];
    points.resize((points.size() + 1) / 2);
  }
}

std::map<std::string, double> last_epoch(const fs::path& file) {
  constexpr std::streamoff kTail = 16 << 10;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : 0;
  if (size <= 0) return {};
  std::string tail(static_cast<std::size_t>(std::min(size, kTail)), '\0');
  stream.seekg(size - static_cast<std::streamoff>(tail.size()));
  stream.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  std::size_t end = tail.rfind('\n');
  while (end != std::string::npos && end > 0) {
    const std::size_t before = tail.rfind('\n', end - 1), begin = before == std::string::npos ? 0 : before + 1;
    if (auto epoch = numbers_of(tail.substr(begin, end - begin)); !epoch.empty()) return epoch;
    if (before == std::string::npos) break;
    end = before;
  }
  return {};
}

}  // namespace neurim
