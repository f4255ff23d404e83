/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a text names in a picture: segment MODEL PICTURE TEXT */
#include <npuseg.h>
#include <stdio.h>

int main(int argc, char **argv) {
  npuseg_sam3 *sam = NULL;
  npuseg_image *photo = NULL;
  npuseg_result *found = NULL;
  npuseg_instance things[200];
  size_t n = 200;
  if (argc != 4) return fprintf(stderr, "usage: segment MODEL PICTURE TEXT\n"), 2;
  if (npuseg_sam3_load(argv[1], NULL, &sam) || npuseg_image_open(argv[2], NULL, &photo) ||
      npuseg_segment(sam, photo, argv[3], NULL, &found) ||
      npuseg_result_instances(found, things, sizeof things[0], &n))
    return fprintf(stderr, "%s\n", npuseg_last_error()), 1;
  for (size_t i = 0; i < n; i++)
    printf("%.3f [%.1f %.1f %.1f %.1f]\n", things[i].score, things[i].box[0], things[i].box[1],
           things[i].box[2], things[i].box[3]);
  npuseg_release(found);
  npuseg_release(photo);
  npuseg_release(sam);
  return 0;
}
