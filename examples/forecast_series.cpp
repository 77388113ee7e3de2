// Learns to forecast a column of a table, and prints what comes next: forecast_series TABLE COLUMN. Without
// arguments the table is made here: sales with a week's rhythm, a trend and some noise. Ends with 0 when the
// forecasts are better than taking the last value, by half.
#include <cmath>
#include <iostream>
#include <random>

#include "neurim/neurim.h"

using namespace neurim;

/// Two years of sales, a row a day.
std::string sales() {
  Random random(1);
  std::string table = "day,sold\n";
  for (int day = 0; day < 730; ++day)
    table += text("day ", day, ',',
                  200 + 0.1 * day + 60 * std::sin(day * 2 * std::acos(-1.0) / 7) + 5 * random.normal(), '\n');
  return table;
}

int main(int argc, char** argv) try {
  initialize();
  const fs::path work = fs::temp_directory_path() / text("neurim-example-", std::random_device()());
  fs::create_directories(work);
  if (argc < 3) write_file(work / "sales.csv", sales());
  const TrainResult run = train({.data = argc < 3 ? (work / "sales.csv").string() : argv[1],
                                 .model = "lstm",
                                 .epochs = 15,
                                 .target = argc < 3 ? "sold" : argv[2],
                                 .window = 28,
                                 .horizon = 7,
                                 .project = (work / "runs").string()});
  std::cout << "mean absolute error " << run.metrics["mae"] << ", of the last value as the forecast "
            << run.metrics["naive_mae"] << '\n';

  const Checkpoint checkpoint = load_checkpoint(run.run);
  const Series series = read_series(argc < 3 ? (work / "sales.csv").string() : argv[1],
                                    checkpoint.config.sequence->columns);
  for (const double value : forecast(checkpoint, series)) std::cout << "next " << value << '\n';
  return run.metrics["mae"] < 0.5 * run.metrics["naive_mae"] ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return static_cast<int>(error.fault());
}
