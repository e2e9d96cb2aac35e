# The steps of the workflows, as targets that run anywhere. Included by the Makefile, which sets BIN,
# RECORDS and SITE and owns .venv/stamp. What comes from outside (a commit, a file name) reaches the
# shell only as a quoted environment variable, never as text of a recipe.
BASE ?= origin/main
SHA ?=
FILE ?=
SCORED ?= .selectivbench/scored
INCOMING ?= incoming
RESULTS ?= leaderboard/results
REMOTE ?= origin
BRANCH ?= records/new
ISOLATE ?= highest
SALT_FILE ?=
AUDITED ?= .selectivbench/audit
export BASE SHA FILE REMOTE BRANCH SALT_FILE

.PHONY: smoke-changed lite-changed summary incoming score audit-scored add-scored check-records push-records

CHANGED = git diff -z --name-only --diff-filter=ACMR "$$BASE...HEAD" -- 'submissions/*.py'
JUDGE = $(BIN)/pytest -c pyproject.toml --rootdir . -p no:cacheprovider $(ARGS)

# One run for each submission that differs from BASE; a name with a blank or a quote is still one name.
smoke-changed: .venv/stamp
	$(CHANGED) | xargs -0 -r -I{} $(JUDGE) --selectiv-profile=smoke --selectiv-out=$(RECORDS) --selectiv-model={}

# A result below the bar is a result, not a broken build.
lite-changed: .venv/stamp
	$(CHANGED) | xargs -0 -r -I{} $(JUDGE) --selectiv-profile=lite --selectiv-no-gate --selectiv-out=$(RECORDS) --selectiv-model={}

summary: .venv/stamp
	@$(BIN)/python -m leaderboard summary $(RECORDS)

# The submission of a pull request as data: one blob of one commit, of a name that is only a name.
# Nothing of that commit is checked out.
incoming:
	@printf '%s' "$$SHA" | grep -Ezqx '[0-9a-f]{40}' || { echo "SHA: give the 40 hex digits of the commit to score" >&2; exit 2; }
	@printf '%s' "$$FILE" | grep -Ezqx 'submissions/[A-Za-z0-9_][A-Za-z0-9_.-]*\.py' || { echo "FILE: give submissions/NAME.py" >&2; exit 2; }
	git fetch --quiet --no-tags --depth=1 "$$REMOTE" "$$SHA"
	rm -rf $(INCOMING) && mkdir -p $(INCOMING)
	git cat-file blob "$$SHA:$$FILE" > "$(INCOMING)/$$(basename -- "$$FILE")"

# From a cold cache, so that no record that came with a submission can be taken for a result.
score: .venv/stamp
	rm -rf $(SCORED)
	$(JUDGE) --selectiv-rerun --selectiv-no-gate --selectiv-validity=yes --selectiv-isolate=$(ISOLATE) --selectiv-out=$(SCORED) --selectiv-model=$(INCOMING)

# The audit's own records tell its seeds and stay on the runner; the gaps leave it.
audit-scored: .venv/stamp
	@if [ -z "$$SALT_FILE" ]; then echo "no SALT_FILE: not audited, so the records count as partly verified"; exit 0; fi; \
	$(BIN)/python -m selectivbench.cli audit --salt-file "$$SALT_FILE" --isolate $(ISOLATE) --records $(SCORED) --out $(AUDITED) $(INCOMING) && \
	mkdir -p $(SCORED)/audits && cp $(AUDITED)/audit.json $(SCORED)/audits/audit.json

add-scored: .venv/stamp
	$(BIN)/python -m leaderboard add --verified --results $(RESULTS) $(if $(wildcard $(SCORED)/audits/audit.json),--audit $(SCORED)/audits/audit.json) $(SCORED)

check-records: .venv/stamp
	$(BIN)/python -m leaderboard check $(RESULTS)

# A branch for a person to merge; two runs never write to the same one.
push-records:
	git checkout -q -b "$$BRANCH"
	git add -- $(RESULTS)
	git diff --cached --quiet || git -c user.name=scoring -c user.email=scoring@users.noreply.github.com commit -q -m "Records of a scoring run"
	git push -q "$$REMOTE" "HEAD:refs/heads/$$BRANCH"
