"""The CI files to copy: what their schemas and their readers say of them, run by run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.ci_repository import CASE, EXAMPLES, Repository, document

GITHUB = sorted(path.name for path in (EXAMPLES / "github").glob("*.yml"))
MEASURE = ("github/perf.yml", "Measure and judge")
NOTE = """
import os, sys
from pathlib import Path
folder = Path(os.environ["STAND_IN"])
with (folder / "calls").open("a") as log:
    log.write("\\x1f".join(sys.argv[1:]) + "\\n")
"""


def steps(name: str) -> list[dict[str, Any]]:
    jobs = document(f"github/{name}")["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize(
    ("schema", "path"),
    [("vendor.github-workflows", f"github/{name}") for name in GITHUB]
    + [("vendor.gitlab-ci", "gitlab/.gitlab-ci.yml")],
)
def test_they_fit_their_schema(schema: str, path: str):
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", schema, EXAMPLES / path]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", GITHUB)
def test_nothing_from_outside_becomes_shell_and_rights_are_least(name: str):
    workflow = document(f"github/{name}")
    assert set(workflow["permissions"].values() or {"none"}) <= {"read", "none"}
    for step in steps(name):
        assert "${{" not in step.get("run", "")
        uses = step.get("uses")
        assert uses is None or re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", uses)
    text = (EXAMPLES / "github" / name).read_text(encoding="utf-8")
    assert all(re.search(r"# v\d+\.\d+\.\d+$", li) for li in text.splitlines() if "uses:" in li)


def test_the_job_with_rights_runs_no_code_of_the_pull_request():
    assert document("github/comment.yml")[True] == {  # YAML 1.1 reads the key "on" as true
        "workflow_run": {
            "workflows": [document("github/perf.yml")["name"]],
            "types": ["completed"],
        }
    }
    assert not any("checkout" in step.get("uses", "") for step in steps("comment.yml"))
    job = document("github/perf.yml")["jobs"]["perf"]
    assert "head.repo.full_name == github.repository" in job["if"]
    assert "pull_request_target" not in str(document("github/perf.yml"))


def test_a_gate_and_its_baselines_on_github(repository: Repository):
    """Without a baseline the gate is red; what it measured is accepted; then it is green."""
    red = repository.step(*MEASURE)
    assert red.returncode == 1, red.stdout + red.stderr
    results = repository.path / "perf-results"
    [measure] = [step for step in steps("perf.yml") if step.get("name") == MEASURE[1]]
    made = set(re.findall(r"=perf-results/(\S+)", measure["run"]))
    assert {"results.json", "comment.md", "benchmark.json", "junit.xml"} <= made
    assert {path.name for path in results.iterdir()} == made
    assert repository.git("status", "--short") == ""

    repository.stand_in(
        "gh",
        NOTE + "if sys.argv[1] == 'api': print('perf of team/project')\n"
        "elif sys.argv[1:3] == ['run', 'download']:\n"
        "    import shutil\n"
        "    shutil.copytree('perf-results', sys.argv[sys.argv.index('--dir') + 1])\n",
    )
    accept = "github/accept-baselines.yml"
    given = {"GH_TOKEN": "t", "RUN_ID": "123", "REPOSITORY": "team/project"}
    fetched = repository.step(accept, "Fetch the results", **given)
    assert fetched.returncode == 0, fetched.stderr
    reason = 'first "$(touch owned)" level'
    opened = repository.step(
        accept,
        "Accept them, and open a pull request",
        CASES="net",
        REASON=reason,
        BY="me",
        **given,
    )
    assert opened.returncode == 0, opened.stdout + opened.stderr
    assert not (repository.path / "owned").exists()
    assert repository.calls()[-1][:4] == ["pr", "create", "--head", "accept-baselines-123"]
    changed = repository.git("diff", "--name-only", "main", "origin/accept-baselines-123")
    assert f"/net/{CASE}.json" in changed
    assert all(line.startswith("baselines/") for line in changed.splitlines())
    assert reason in repository.git("log", "-1", "--format=%s")

    green = repository.step(*MEASURE)
    assert green.returncode == 0, green.stdout + green.stderr


@pytest.mark.parametrize(
    ("run_id", "origin", "words"),
    [
        ("1; touch owned", "perf of team/project", "is the number of a run"),
        ("", "perf of team/project", "is the number of a run"),
        ("1", "perf of stranger/fork", "is perf of stranger/fork, and not"),
        ("1", "other of team/project", "is other of team/project, and not"),
    ],
)
def test_results_of_elsewhere_are_not_accepted(
    repository: Repository, run_id: str, origin: str, words: str
):
    repository.stand_in("gh", NOTE + f"print({origin!r})")
    given = {"GH_TOKEN": "t", "RUN_ID": run_id, "REPOSITORY": "team/project"}
    fetched = repository.step("github/accept-baselines.yml", "Fetch the results", **given)
    assert fetched.returncode == 1
    assert words in fetched.stderr
    assert not any(call[0] == "run" for call in repository.calls())


COMMENT = {
    "GH_TOKEN": "t", "REPOSITORY": "team/project", "HEAD": "me:branch", "HEAD_SHA": "abc",
}  # fmt: skip


def comment(
    repository: Repository, text: str | None, *, number: str, before: str
) -> tuple[int, Any]:
    """Post ``text``; return the exit status, and how GitHub's interface was called.

    Without a text the run has written no comment.
    """
    folder = repository.path / "perf-results"
    folder.mkdir()
    if text is not None:
        (folder / "comment.md").write_text(text, encoding="utf-8")
    repository.stand_in(
        "gh",
        NOTE + f"if 'repos/team/project/pulls' in sys.argv: print({number!r})\n"
        f"elif '--paginate' in sys.argv: print({before!r})\n",
    )
    name = "Post the comment, or renew it"
    done = repository.step("github/comment.yml", name, **COMMENT)
    return done.returncode, repository.calls()


@pytest.mark.parametrize(
    ("before", "how", "where"),
    [
        ("", "POST", "repos/team/project/issues/7/comments"),
        ("55\n66", "PATCH", "repos/team/project/issues/comments/55"),
    ],
)
def test_there_is_one_comment(repository: Repository, before: str, how: str, where: str):
    marker = "<!-- pytest-dlperf: 8x-v100-sxm2-32gb -->\n"
    status, calls = comment(repository, f"{marker}x\n", number="7", before=before)
    assert status == 0
    assert "head=me:branch" in calls[0]
    assert {how, where, "body=@perf-results/comment.md"} <= set(calls[-1])


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "<!-- pytest-dlperf: a --> hi\n", "<!-- pytest-dlperf: a -->\n" + "x" * 70000],
)
def test_a_comment_that_is_none_of_ours_is_not_posted(repository: Repository, text: str):
    status, calls = comment(repository, text, number="7", before="")
    assert (status, calls) == (1, [])


def test_a_run_that_wrote_no_comment_posts_none(repository: Repository):
    status, calls = comment(repository, None, number="7", before="")
    assert (status, calls) == (0, [])


def test_a_pull_request_that_went_on_gets_no_comment(repository: Repository):
    text = "<!-- pytest-dlperf: a -->\nx\n"
    status, calls = comment(repository, text, number="", before="")
    assert status == 0
    assert len(calls) == 1


def test_a_gate_and_its_baselines_on_gitlab(repository: Repository):
    pipeline = document("gitlab/.gitlab-ci.yml")
    perf, accept = pipeline["perf"], pipeline["accept-baselines"]
    red = repository.bash("\n".join(perf["script"]))
    assert red.returncode == 1, red.stdout + red.stderr
    for path in perf["artifacts"]["reports"].values():
        assert (repository.path / path).exists()

    repository.stand_in(
        "curl",
        NOTE + "import shutil\n"
        "shutil.copy('perf-results/results.json', sys.argv[sys.argv.index('--output') + 1])\n",
    )
    # GitLab's address is built into the command: git takes the bare repository for it.
    url = "https://oauth2:token@gitlab.example/team/project.git"
    repository.git("config", f"url.{repository.origin}.insteadOf", url)
    subprocess.run(
        ["git", "-C", repository.origin, "config", "receive.advertisePushOptions", "true"],
        check=True,
    )
    accepted = repository.bash(
        "\n".join(accept["script"]),
        PERF_JOB_ID="77", REASON="first", GITLAB_USER_LOGIN="me", GITLAB_USER_NAME="Me",
        GITLAB_USER_EMAIL="me@example.org", CI_API_V4_URL="https://gitlab.example/api/v4",
        CI_PROJECT_ID="1", CI_JOB_TOKEN="j", PERF_PUSH_TOKEN="token",
        CI_SERVER_HOST="gitlab.example", CI_PROJECT_PATH="team/project",
    )  # fmt: skip
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    branch = "accept-baselines-77"
    changed = repository.git("diff", "--name-only", "main", branch)
    assert f"/net/{CASE}.json" in changed
    pushed = subprocess.run(
        ["git", "-C", repository.origin, "branch", "--list", branch],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert branch in pushed.stdout

    green = repository.bash("\n".join(perf["script"]))
    assert green.returncode == 0, green.stdout + green.stderr
