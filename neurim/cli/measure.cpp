#include "neurim/cli/measure.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>

#include "neurim/base/error.h"
#include "neurim/hardware/machine.h"

namespace neurim::cli {

std::vector<double> times_of(const std::function<void()>& call, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (double spent = 0; times.empty() || spent < seconds; spent += times.back()) {
    const Clock::time_point begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return times;
}

double sorted_at(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
}

double rate_of(const std::vector<double>& times, std::int64_t batch) {
  double sum = 0;
  for (const double time : times) sum += time;
  return static_cast<double>(batch) * static_cast<double>(times.size()) / sum;
}

void serve(const JsonObject& base, std::int64_t batch, const std::function<void()>& call) {
  const std::string key = text("bs", batch);
  const auto answer = [](const JsonObject& object) { std::cout << object.line() << '\n' << std::flush; };
  answer({{"ready", 1}, {"base", base}, {"meta", JsonObject()}, {"keys", JsonObject{{key, batch}}}});
  for (std::string request; std::getline(std::cin, request);) {
    std::istringstream fields(request);
    std::string verb, asked;
    double seconds = 0;
    fields >> verb;
    if (verb.empty() || verb == "quit") break;
    fields >> asked >> seconds;
    require(verb == "go" && asked == key && fields, "serve: cannot answer '", request, "'; send 'go ", key,
            " SECONDS' or 'quit'");
    answer({{"times", times_of(call, seconds)}});
  }
  answer({{"peak_rss_mib", peak_rss_mib()}});
}

}  // namespace neurim::cli
