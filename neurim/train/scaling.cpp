#include "neurim/train/scaling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "neurim/base/text.h"
#include "neurim/hardware/machine.h"

namespace neurim {

RankTimes RankTimes::operator+(const RankTimes& other) const {
  return {all + other.all, spoken + other.spoken, waited + other.waited, behind + other.behind,
          samples + other.samples};
}

RankTimes RankTimes::operator-(const RankTimes& other) const {
  return {all - other.all, spoken - other.spoken, waited - other.waited, behind - other.behind,
          samples - other.samples};
}

double ScalingReport::samples_per_second() const { return seconds > 0 ? samples / seconds : 0; }

double ScalingReport::share_of_communication() const {
  const double all = std::accumulate(communication.begin(), communication.end(), 0.0);
  const double whole = all + std::accumulate(computing.begin(), computing.end(), 0.0);
  return whole > 0 ? all / whole : 0;
}

std::size_t ScalingReport::slowest() const {
  return static_cast<std::size_t>(std::max_element(computing.begin(), computing.end()) - computing.begin());
}

double ScalingReport::imbalance() const {
  std::vector<double> sorted = computing;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  const double median = sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  return median > 0 ? sorted.back() / median : 1;
}

std::string ScalingReport::line() const {
  constexpr double kUneven = 1.1;
  std::string line = text(computing.size(), " processes: ", fixed(samples_per_second(), 0), " samples a second, ",
                          fixed(100 * share_of_communication(), 0), " % of the time for sums and waiting (efficiency ",
                          fixed(100 * efficiency(), 0), " %)");
  if (beside > 0) line += text(", ", fixed(100 * beside, 0), " % of the sums beside computing");
  if (imbalance() > kUneven)
    line += text("; rank ", slowest(), " (", hosts[slowest()], ") computes ", fixed(imbalance(), 2),
                 " times as long as the median");
  const auto worst = std::max_element(memory.begin(), memory.end(),
                                      [](const RankMemory& a, const RankMemory& b) { return a.most < b.most; });
  if (worst->most > 0)
    line += text("; memory ", thousands(std::llround(worst->most)), " MiB on rank ", worst - memory.begin(), " (",
                 thousands(std::llround(worst->planned)), " planned)");
  return line;
}

JsonObject ScalingReport::event() const {
  std::vector<double> planned, most;
  for (const RankMemory& rank : memory) planned.push_back(rank.planned), most.push_back(rank.most);
  return {{"event", "scaling"},
          {"processes", static_cast<std::int64_t>(computing.size())},
          {"samples_per_second", samples_per_second()},
          {"seconds", seconds},
          {"efficiency", efficiency()},
          {"communication", share_of_communication()},
          {"beside_computing", beside},
          {"slowest_rank", static_cast<std::int64_t>(slowest())},
          {"imbalance", imbalance()},
          {"computing_seconds", computing},
          {"communication_seconds", communication},
          {"memory_mib", most},
          {"planned_memory_mib", planned},
          {"hosts", hosts}};
}

ScalingReport scaling_of(const Job& job, const RankTimes& own, const RankMemory& memory) {
  ScalingReport scaling{.samples = own.samples};
  double waited = 0, behind = 0;
  const std::vector<std::string> all = job.group().all_gather(text(own.all, ' ', own.spoken, ' ', own.waited, ' ',
                                                                   own.behind, ' ', host_name(), ' ', memory.planned,
                                                                   ' ', memory.most));
  for (const std::string& rank : all) {
    const std::vector<std::string> words = split(rank, ' ');
    const double whole = std::stod(words.at(0)), waits = std::stod(words.at(2));
    const double spoken = std::min(std::stod(words.at(1)) + waits, whole);
    scaling.seconds = std::max(scaling.seconds, whole);
    scaling.communication.push_back(spoken);
    scaling.computing.push_back(whole - spoken);
    waited += waits, behind += std::stod(words.at(3));
    scaling.hosts.push_back(words.at(4));
    scaling.memory.push_back({std::stod(words.at(5)), std::stod(words.at(6))});
  }
  if (behind > 0) scaling.beside = std::max(0.0, 1 - waited / behind);
  return scaling;
}

}  // namespace neurim
