/* SPDX-License-Identifier: Apache-2.0 */
/* How near pictures are to a sentence: embed MODEL SENTENCE PICTURE... | sort -rn */
#include <npuseg.h>
#include <stdio.h>
static npuseg_embed_options query; /* all zero: the defaults */
static float sentence[768], picture[768];

int main(int argc, char **argv) {
  npuseg_embeddinggemma2 *model = NULL;
  npuseg_image *photo = NULL;
  query.struct_size = sizeof query;
  query.task = "query";
  if (argc < 4) return fprintf(stderr, "usage: embed MODEL SENTENCE PICTURE...\n"), 2;
  int bad = npuseg_embeddinggemma2_load(argv[1], NULL, &model) ||
            npuseg_embed_text(model, argv[2], NPUSEG_NUL_TERMINATED, &query, sentence, 768);
  for (int i = 3; i < argc && !bad; i++, npuseg_release(photo)) {
    float near = 0;
    bad = npuseg_image_open(argv[i], NULL, &photo) ||
          npuseg_embed_image(model, photo, NULL, picture, 768);
    for (int k = 0; k < 768; k++) near += sentence[k] * picture[k];
    if (!bad) printf("%6.3f  %s\n", near, argv[i]);
  }
  if (bad) fprintf(stderr, "%s\n", npuseg_last_error());
  return npuseg_release(model), bad;
}
