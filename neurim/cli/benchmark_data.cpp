#include "neurim/cli/benchmark_data.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "neurim/base/sha256.h"
#include "neurim/cli/open_data.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kProbed = 4096;  // samples that are decoded alone and hashed
// Samples loaded before the clock runs: a loader examines each sample once, at its first use.
constexpr std::int64_t kWarmed = 65536;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct DecodeRate {
  double images_per_second = 0;
  std::int64_t bytes = 0;  // of the files
};

/// Decodes the first samples on so many threads and discards them.
DecodeRate decode_only(const Dataset& dataset, std::int64_t samples, std::int64_t threads) {
  std::atomic<std::int64_t> next{0}, bytes{0}, decoded{0};
  const Clock::time_point begin = Clock::now();
  std::vector<std::thread> workers;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(threads, 1); ++i)
    workers.emplace_back([&] {
      Decoder decoder;
      Image image;
      std::vector<std::byte> buffer;
      for (std::int64_t sample; (sample = next++) < samples;) try {
          const StoredImage stored = dataset.read(Split::train, sample, buffer);
          bytes += static_cast<std::int64_t>(stored.bytes.size());
          decoder.open(stored);
          decoder.read(image);
          ++decoded;
        } catch (const Error&) {  // the loader reports it
        }
    });
  for (std::thread& worker : workers) worker.join();
  return {static_cast<double>(decoded) / seconds_since(begin), bytes};
}

/// A hash of the first batches of epoch 0. Loads up to kWarmed samples.
std::string hash_of(BatchSource& loader, std::int64_t samples) {
  Sha256 sha;
  Batch batch;
  loader.start(0);
  for (std::int64_t seen = 0; seen < kWarmed && loader.next(batch); seen += batch.size)
    if (seen < samples) sha.add(std::as_bytes(batch.images));
  return sha.hex();
}

}  // namespace

double median(std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  return (rounds[(rounds.size() - 1) / 2] + rounds[rounds.size() / 2]) / 2;
}

int benchmark_data(const DataBenchmark& benchmark, const CommandLine& line, Console& console) {
  require(!benchmark.data.empty(), "the data are missing; give a folder of images: data=DIR");
  const Dataset dataset = open_data(benchmark.data, {.val_split = 0.0}, console);
  const std::int64_t samples = dataset.size(Split::train), probed = std::min(samples, kProbed);
  const InputSize& size = benchmark.imgsz;
  const Preprocess preprocess{.height = static_cast<int>(size.height),
                              .width = static_cast<int>(size.width),
                              .mean = {0.485, 0.456, 0.406},
                              .std = {0.229, 0.224, 0.225},
                              .decode = {.scaled = scaled_named(benchmark.decode)}};
  const LoaderOptions options{.batch = static_cast<int>(std::min(benchmark.batch, samples)),
                              .workers = static_cast<int>(benchmark.threads),
                              .seed = static_cast<std::uint64_t>(benchmark.seed),
                              .shuffle = true,
                              .drop_last = true,
                              .cache = Cache::none,
                              .max_bad = benchmark.max_bad};
  const std::unique_ptr<BatchSource> loader = open_loader(benchmark.loader, dataset, Split::train, preprocess,
                                                          parse_augment(benchmark.augment), options);
  if (line.dry_run())
    return line.end_dry_run(console,
                            text("measure ", benchmark.rounds, " rounds of ", benchmark.seconds, " s: the loading of ",
                                 plural(samples, "image")),
                            {{"mode", "data"},
                             {"dataset_samples", samples},
                             {"batch", options.batch},
                             {"rounds", benchmark.rounds},
                             {"seconds", benchmark.seconds}});
  const std::string hash = hash_of(*loader, probed);
  const DecodeRate decode = decode_only(dataset, probed, benchmark.threads);

  std::vector<double> rates;
  std::uint32_t epoch = 1;
  loader->start(epoch);
  Batch batch;
  for (std::int64_t round = 0; round < benchmark.rounds; ++round) {
    std::int64_t images = 0;
    const Clock::time_point begin = Clock::now();
    while (seconds_since(begin) < benchmark.seconds) {
      if (!loader->next(batch)) {
        loader->start(++epoch);
        continue;
      }
      images += batch.size;
    }
    rates.push_back(static_cast<double>(images) / seconds_since(begin));
    console.progress(text("  round ", round + 1, '/', benchmark.rounds, "  ", fixed(rates.back(), 0), " img/s"));
  }
  const double rate = median(rates);
  console.print(text("data ", samples, " images, ", benchmark.augment, ", decode=", benchmark.decode, ", ", size.height,
                     " x ", size.width, ", batch ", options.batch, ": ", fixed(rate, 0), " img/s, decoding alone ",
                     fixed(decode.images_per_second, 0), " img/s, ", benchmark.threads, " threads"));
  for (const BadSample& bad : loader->bad()) console.print(text("skipped: ", bad.reason));
  const bool square = size.height == size.width;
  console.event({{"event", "summary"},
                 {"mode", "data"},
                 {"images_per_second", rate},
                 {"samples", rates},
                 {"dataset_samples", samples},
                 {"probed_samples", probed},
                 {"data_bytes", decode.bytes},
                 {"decode_only_images_per_second", decode.images_per_second},
                 {"pixels_sha256", hash},
                 {"batch", options.batch},
                 {"imgsz", square ? JsonText(size.height) : JsonText(std::vector{size.height, size.width})},
                 {"augment", benchmark.augment},
                 {"decode", benchmark.decode},
                 {"loader", benchmark.loader},
                 {"bad", loader->bad().size()},
                 {"threads", benchmark.threads}});
  return 0;
}

}  // namespace neurim::cli
