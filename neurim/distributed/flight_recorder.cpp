#include "neurim/distributed/flight_recorder.h"

#include <algorithm>
#include <cstdlib>

#include "neurim/base/json.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr std::size_t kEntries = 256;
constexpr std::string_view kEnd = "\n]\n";  // of the timeline, which is whole after each operation
constexpr double kMicroseconds = 1e6;       // in a second

}  // namespace

FlightRecorder::FlightRecorder(int rank) {
  const char* const file = std::getenv("HOROVOD_TIMELINE");
  if (!file || rank != 0) return;
  timeline_.open(file);
  timeline_ << '[' << kEnd << std::flush;
}

std::uint64_t FlightRecorder::begin(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (last_.size() == kEntries) last_.pop_front();
  last_.push_back({.operation = operation, .begin = now(), .number = ++begun_});
  return begun_;
}

void FlightRecorder::end(std::uint64_t number, bool failed) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(last_.begin(), last_.end(), [&](const Entry& one) { return one.number == number; });
  if (found == last_.end()) return;  // many others have ended since
  Entry& entry = *found;
  entry.seconds = now() - entry.begin;
  const bool behind = std::this_thread::get_id() != thread_;
  (behind ? seconds_behind_ : seconds_) += entry.seconds;
  entry.state = failed ? "failed" : "done";
  if (!timeline_.is_open()) return;
  const JsonObject sizes{{"bytes", static_cast<std::int64_t>(entry.operation.bytes)}};
  const JsonObject event{{"name", entry.operation.name},
                         {"ph", "X"},
                         {"ts", entry.begin * kMicroseconds},
                         {"dur", entry.seconds * kMicroseconds},
                         {"pid", 0},
                         {"tid", behind ? 1 : 0},
                         {"args", sizes}};
  timeline_.seekp(-static_cast<std::streamoff>(kEnd.size()), std::ios::cur);
  timeline_ << (first_ ? "\n" : ",\n") << event.line() << kEnd << std::flush;
  first_ = false;
}

double FlightRecorder::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

double FlightRecorder::seconds_behind() const {
  const std::lock_guard lock(mutex_);
  return seconds_behind_;
}

std::string FlightRecorder::csv() const {
  const std::lock_guard lock(mutex_);
  std::string lines = "number,operation,bytes,begin,seconds,state\n";
  for (const Entry& entry : last_) {
    const bool open = std::string_view(entry.state) == "under way";
    lines += text(entry.operation.number, ',', entry.operation.name, ',', entry.operation.bytes, ',', entry.begin, ',',
                  open ? now() - entry.begin : entry.seconds, ',', entry.state, '\n');
  }
  return lines;
}

std::string FlightRecorder::under_way(double& seconds) const {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : last_) {
    if (std::string_view(entry.state) != "under way") continue;
    seconds = now() - entry.begin;
    return text(entry.operation.name, " of ", entry.operation.bytes, " bytes");
  }
  return "";
}

}  // namespace neurim
