#include "neurim/distributed/flight_recorder.h"

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

void FlightRecorder::begin(const Operation& operation) {
  const std::lock_guard lock(mutex_);
  if (last_.size() == kEntries) last_.pop_front();
  last_.push_back({.operation = operation, .begin = now()});
}

void FlightRecorder::end(bool failed) {
  const std::lock_guard lock(mutex_);
  Entry& entry = last_.back();
  entry.seconds = now() - entry.begin;
  seconds_ += entry.seconds;
  entry.state = failed ? "failed" : "done";
  if (!timeline_.is_open()) return;
  const JsonObject sizes{{"bytes", static_cast<std::int64_t>(entry.operation.bytes)}};
  const JsonObject event{{"name", entry.operation.name},
                         {"ph", "X"},
                         {"ts", entry.begin * kMicroseconds},
                         {"dur", entry.seconds * kMicroseconds},
                         {"pid", 0},
                         {"tid", 0},
                         {"args", sizes}};
  timeline_.seekp(-static_cast<std::streamoff>(kEnd.size()), std::ios::cur);
  timeline_ << (first_ ? "\n" : ",\n") << event.line() << kEnd << std::flush;
  first_ = false;
}

double FlightRecorder::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
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
  if (last_.empty() || std::string_view(last_.back().state) != "under way") return "";
  seconds = now() - last_.back().begin;
  return text(last_.back().operation.name, " of ", last_.back().operation.bytes, " bytes");
}

}  // namespace neurim
