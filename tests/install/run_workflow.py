#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of a workflow of examples/ci-project/ci word for word, as GitHub or GitLab would: each in a new bash,
in the folder of a copy of the project, with the variables that earlier steps have set. "uses: OWNER/utofu-verbs" runs
the steps of action.yml; of other actions only what they need is there: the copy that checkout makes, the folder that
upload-artifact takes.

usage: run_workflow.py WORKFLOW SOURCE FOLDER [--installed] [OLD=NEW]...
       run_workflow.py --check SOURCE

--installed: without the steps that install the library, which an earlier run has made. OLD=NEW: NEW instead of OLD in
the steps, as in "build/sum=build/sum source". --check: the workflows and action.yml are what GitHub and GitLab take, as
far as rules here say, and docs/guide/ci.md has the workflows as they are.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

STEP_KEYS = {"name", "uses", "with", "run", "shell", "env", "if", "id", "working-directory"}
JOB_KEYS = {"runs-on", "timeout-minutes", "container", "env", "steps", "permissions", "name", "needs", "if",
            "environment", "strategy"}
TOP_KEYS = {"name", True, "on", "permissions", "jobs", "env"}
GITLAB_KEYS = {"image", "timeout", "before_script", "script", "artifacts", "variables"}
KNOWN = {"actions/checkout@v4": set(), "actions/cache@v4": {"path", "key"},
         "actions/upload-artifact@v4": {"name", "path"}, "actions/upload-pages-artifact@v3": {"path"},
         "actions/deploy-pages@v4": set()}
ACTION = "OWNER/utofu-verbs@v"


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


# ---- running ----

class Runner:
    def __init__(self, source, folder, words):
        self.source, self.installed = source, "--installed" in words
        self.replace = [word.split("=", 1) for word in words if word != "--installed"]
        self.work, self.temp = folder / "project", folder / "temp"
        self.temp.mkdir(parents=True)
        self.variables = {"GITHUB_ACTIONS": "true", "CI": "true", "RUNNER_TEMP": str(self.temp),
                          "GITHUB_SERVER_URL": "https://OWNER.invalid"}
        for name in ("ENV", "PATH", "STEP_SUMMARY", "OUTPUT"):
            path = self.temp / name.lower()
            path.touch()
            self.variables["GITHUB_" + name] = str(path)
        self.artefacts = []

    def put(self, text):
        for old, new in self.replace:
            text = text.replace(old, new)
        return text

    def shell(self, script, more=None):
        """As GitHub's "shell: bash": bash --noprofile --norc -eo pipefail FILE."""
        script = self.put(script)
        path = self.temp / "step.sh"
        path.write_text(script, encoding="utf-8")
        environment = dict(os.environ, **self.variables)
        for line in Path(self.variables["GITHUB_ENV"]).read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            environment[name] = value
        environment.update(more or {})
        print("+ " + script.strip().replace("\n", "\n+ "), flush=True)
        return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", str(path)], cwd=self.work,
                              env=environment, stdin=subprocess.DEVNULL, check=False).returncode

    def run_action(self, given):
        action = load(self.source / "action.yml")
        inputs = {name: str(given.get(name, what.get("default", ""))) for name, what in action["inputs"].items()}
        for step in action["runs"]["steps"]:
            values = {}
            for name, text in step.get("env", {}).items():
                text = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m.group(1)], text)
                text = text.replace("${{ github.action_repository }}", "OWNER/utofu-verbs")
                values[name] = text.replace("${{ github.action_path }}", str(self.source))
            status = self.shell(step["run"], values)
            if status:
                return status
        return 0

    def run_step(self, step):
        uses = step.get("uses", "")
        if uses.startswith("actions/checkout@"):
            shutil.copytree(self.source / "examples" / "ci-project", self.work, dirs_exist_ok=True)
        elif uses.startswith(ACTION):
            return 0 if self.installed else self.run_action(step.get("with", {}))
        elif uses.startswith("actions/upload-artifact@"):
            self.artefacts.append(self.work / step["with"]["path"])
        return self.shell(step["run"], step.get("env")) if "run" in step else 0


def run_github(runner, workflow):
    for job in workflow["jobs"].values():
        runner.variables.update({k: str(v) for k, v in job.get("env", {}).items()})
        runner.work.mkdir(parents=True)
        status = 0
        for step in job["steps"]:
            if status and step.get("if") != "always()":
                continue
            status = runner.run_step(step) or status
        return status


def run_gitlab(runner, workflow):
    shutil.copytree(runner.source / "examples" / "ci-project", runner.work)
    job = workflow["utofu"]
    script = "\n".join(([] if runner.installed else job["before_script"]) + job["script"])
    runner.artefacts = [runner.work / path for path in job["artifacts"]["paths"]]
    del runner.variables["GITHUB_ACTIONS"]
    return runner.shell(script, {k: runner.put(str(v)) for k, v in workflow["variables"].items()})


def run_workflow(path, source, folder, words):
    workflow = load(Path(path))
    runner = Runner(source, folder, words)
    status = run_github(runner, workflow) if "jobs" in workflow else run_gitlab(runner, workflow)
    for artefact in runner.artefacts:
        files = sorted(p.name for p in artefact.rglob("*") if p.is_file()) if artefact.is_dir() else []
        print("artefact %s: %d files" % (artefact.name, len(files)))
        if not files and not status:
            status = 1
    summary = Path(runner.variables["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    print(summary, end="")
    print("status %d" % status)
    return status


# ---- checking ----

def wrong_keys(what, value, known):
    unknown = [str(key) for key in value if key not in known]
    if unknown:
        yield "%s: unknown %s" % (what, ", ".join(unknown))


def wrong_steps(what, steps, inputs):
    for step in steps:
        yield from wrong_keys(what, step, STEP_KEYS)
        if ("run" in step) == ("uses" in step):
            yield "%s: a step has either run or uses" % what
        uses = step.get("uses")
        if uses and (uses.startswith(ACTION) or uses == "./"):
            yield from wrong_keys("%s: %s" % (what, uses), step.get("with", {}), inputs)
        elif uses and uses not in KNOWN:
            yield "%s: %s is not known here" % (what, uses)
        elif uses:
            yield from wrong_keys("%s: %s" % (what, uses), step.get("with", {}), KNOWN[uses])
        if "run" in step:
            done = subprocess.run(["bash", "-n"], input=step["run"].encode(), check=False)
            if done.returncode:
                yield "%s: a step is no shell script" % what


def wrong_workflow(name, workflow, inputs):
    if "jobs" not in workflow:
        jobs = {key: value for key, value in workflow.items() if key != "variables"}
        for key, job in jobs.items():
            yield from wrong_keys("%s: %s" % (name, key), job, GITLAB_KEYS)
        return
    yield from wrong_keys(name, workflow, TOP_KEYS)
    if True not in workflow and "on" not in workflow:  # YAML 1.1 takes "on" for true
        yield "%s: it has no on" % name
    for key, job in workflow["jobs"].items():
        yield from wrong_keys("%s: %s" % (name, key), job, JOB_KEYS)
        if "runs-on" not in job or "timeout-minutes" not in job:
            yield "%s: %s has no runs-on or timeout-minutes" % (name, key)
        yield from wrong_steps("%s: %s" % (name, key), job["steps"], inputs)


def wrong_action(action):
    yield from wrong_keys("action.yml", action, {"name", "description", "inputs", "outputs", "runs", "author"})
    for name, what in action["inputs"].items():
        yield from wrong_keys("action.yml: %s" % name, what, {"description", "default", "required"})
        if "description" not in what:
            yield "action.yml: %s has no description" % name
    if action["runs"].get("using") != "composite":
        yield "action.yml: not a composite action"
    for step in action["runs"]["steps"]:
        if "run" in step and "shell" not in step:
            yield "action.yml: a step of a composite action has no shell"
        for name in re.findall(r"inputs\.(\w+)", str(step)):
            if name not in action["inputs"]:
                yield "action.yml: there is no input %s" % name
    unused = [name for name in action["inputs"] if "inputs.%s " % name not in str(action["runs"])]
    if unused:
        yield "action.yml: %s is used nowhere" % ", ".join(unused)


def check(source):
    bad = []
    action = load(source / "action.yml")
    bad += wrong_action(action)
    page = (source / "docs/guide/ci.md").read_text(encoding="utf-8")
    files = sorted((source / "examples/ci-project/ci").glob("*.yml"))
    for path in files:
        text = path.read_text(encoding="utf-8")
        bad += wrong_workflow(path.name, load(path), action["inputs"])
        if text.partition("---\n")[2] not in page:
            bad.append("docs/guide/ci.md does not have %s as it is" % path.name)
    for path in sorted((source / ".github/workflows").glob("*.yml")):
        bad += wrong_workflow(path.name, load(path), action["inputs"])
    print("\n".join(bad) or "ok: %d workflows, %d inputs" % (len(files), len(action["inputs"])))
    return 1 if bad or not files else 0


def main():
    if sys.argv[1] == "--check":
        sys.exit(check(Path(sys.argv[2])))
    workflow, source, folder = sys.argv[1:4]
    sys.exit(run_workflow(workflow, Path(source).resolve(), Path(folder).resolve(), sys.argv[4:]))


main()
