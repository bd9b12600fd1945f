# The commands of the project. Each works in a fresh clone; `make help` lists them.
BUILD ?= build
MODEL ?= models/stories-mla
PROMPT ?= Once upon a time there was a little girl who
ARGS ?=
STAGES ?=
CONTEXTS ?= 4096,16384
BATCHES ?= 1,4

# The prompt reaches the program through the environment, so that quotes, dollar signs and
# backticks in it are text and nothing else.
override PROMPT := $(value PROMPT)
export PROMPT

.DEFAULT_GOAL := help
.PHONY: help generate test build bench format clean

help:
	@echo 'make generate [PROMPT="..."] [MODEL=DIR] [ARGS="..."]  build, then continue the prompt'
	@echo 'make test [STAGES="release asan tsan neon fuzz"]  everything that must pass'
	@echo 'make build     the program, at $(BUILD)/mla'
	@echo 'make bench     attention paths side by side [CONTEXTS=4096,16384] [BATCHES=1,4]'
	@echo 'make format    clang-format over the C++ sources'
	@echo 'make clean     removes every build directory'
	@echo 'generate, build, test and bench install missing Debian packages first (apt-get).'

generate: build
	@"$(BUILD)/mla" generate -m "$(MODEL)" -p "$$PROMPT" $(ARGS)

test:
	@tools/install_deps.sh build test bench
	@tools/install_deps.sh neon || echo 'The stage neon will fail; STAGES="..." leaves it out.' >&2
	@tools/run_tests.sh $(STAGES)

build:
	@tools/install_deps.sh build
	@tools/build.sh "$(BUILD)"

bench: build
	@"$(BUILD)/mla" bench attention --contexts $(CONTEXTS) --batches $(BATCHES) $(ARGS)

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	@rm -rf build build-*
