/* Opens a model, classifies an image with it and closes it, as often as it is told: what is left of one of them would add up.
 * Prints the resident memory, KiB, after a tenth and after all. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "neurim/runtime/neurim_rt.h"

static long resident_kib(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) fclose(file);
  return resident * 4;
}

int main(int argc, char** argv) {
  if (argc != 3) return NEURIM_USAGE;
  const int times = atoi(argv[2]);
  static uint8_t pixels[40 * 30];
  for (int i = 0; i < times; ++i) {
    neurim_session* session;
    float probabilities[3];
    neurim_status status = neurim_open(argv[1], NULL, &session);
    if (status == NEURIM_OK && neurim_class_count(session) != 3) status = NEURIM_FAILURE;
    if (status == NEURIM_OK) status = neurim_classify_pixels(session, pixels, 40, 30, 1, probabilities);
    if (status != NEURIM_OK) {
      fprintf(stderr, "%s\n", neurim_last_error());
      return status;
    }
    neurim_close(session);
    if (neurim_open("nothing.neurim", NULL, &session) != NEURIM_DATA || session != NULL) return NEURIM_FAILURE;
    if (i == times / 10) printf("%ld ", resident_kib());
  }
  printf("%ld\n", resident_kib());
  return NEURIM_OK;
}
