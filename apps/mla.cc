// The program `mla`. Everything is in src/cli/.
#include "cli/main.h"

int main(int argc, char** argv) { return mla::Main(argc, argv); }
