"""Documents: links, and the tables for users of other libraries."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks import results
from benchmarks.tasks import TASKS
from rltrain.battles.native import RULES_VERSION
from rltrain.common.metrics import METRICS
from rltrain.config.catalog import CONF, FREE_FORM
from rltrain.config.names import OF_A_RUN
from tests.marks import slow_except

DOCS = Path(__file__).parents[2] / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = ["from_pymarl.md", "from_rllib.md", "from_sb3.md"]
GROUPS = ("algo", "env", "buffer", "hardware", "logger")
ROOTS = (*GROUPS, "test", "save", "log", "stop", "dataset", "hydra")
REPORTED = {name.partition("/")[0] for name in METRICS}

PYMARL = """
runner mac env_args batch_size_run test_nepisode test_interval test_greedy log_interval
runner_log_interval learner_log_interval t_max use_cuda buffer_cpu_only use_tensorboard save_model
save_model_interval checkpoint_path evaluate load_step save_replay local_results_path gamma
batch_size buffer_size lr critic_lr optim_alpha optim_eps grad_norm_clip agent rnn_hidden_dim
obs_agent_id obs_last_action repeat_id label save_episodes episode_dir clear_existing_episodes
action_selector epsilon_start epsilon_finish epsilon_anneal_time target_update_interval
agent_output_type learner double_q mixer mixing_embed_dim hypernet_layers hypernet_embed name
qtran_arch opt_loss nopt_min_loss network_size
continuing_episode difficulty game_version map_name move_amount obs_all_health obs_instead_of_state
obs_own_health obs_pathing_grid obs_terrain_height obs_timestep_number reward_death_value
reward_defeat reward_negative_scale reward_only_positive reward_scale reward_scale_rate
reward_sparse reward_win replay_dir replay_prefix state_last_action state_timestep_number step_mul
seed debug
render hidden_dim hypergroup use_rnn evaluation_epsilon standardise_returns standardise_rewards
target_update_interval_or_tau obs_individual_obs add_value_last_step common_reward
reward_scalarisation use_wandb wandb_mode wandb_project wandb_team wandb_save_model
optimizer td_lambda q_lambda use_per per_alpha per_beta return_priority accumulated_episodes
test_noise thread_num cpu_inference weight_decay n_step burn_in_period is_save_buffer is_batch_rl
num_circle training_iters
"""
"""Keys of PyMARL's, EPyMARL's and PyMARL2's default, value-based and StarCraft files."""
RLLIB = """
timesteps_per_iteration target_network_update_freq buffer_size replay_sequence_length
compress_observations lr lr_schedule adam_epsilon grad_clip learning_starts rollout_fragment_length
train_batch_size num_workers min_iter_time_s store_buffer_in_checkpoints num_atoms v_min v_max noisy
sigma0 dueling hiddens double_q n_step worker_side_prioritization prioritized_replay
final_prioritized_replay_beta prioritized_replay_beta_annealing_timesteps before_learn_on_batch
training_intensity replay_mode num_envs_per_worker create_env_on_driver batch_mode gamma horizon
soft_horizon no_done_at_end env env_config env_task_fn render_env record_env normalize_actions
clip_rewards clip_actions preprocessor_pref log_level callbacks ignore_worker_failures log_sys_usage
fake_sampler framework explore exploration_config evaluation_interval evaluation_num_episodes
evaluation_parallel_to_training evaluation_num_workers evaluation_config custom_eval_function
sample_async sample_collector observation_filter synchronize_filters collect_metrics_timeout
metrics_smoothing_episodes remote_worker_envs remote_env_batch_wait_ms seed num_gpus _fake_gpus
num_cpus_per_worker num_gpus_per_worker num_cpus_for_driver placement_strategy input output
input_evaluation postprocess_inputs shuffle_buffer_size output_max_file_size multiagent policies
policy_mapping_fn policies_to_train observation_fn count_steps_by model fcnet_hiddens
fcnet_activation conv_filters conv_activation post_fcnet_hiddens use_lstm max_seq_len lstm_cell_size
lstm_use_prev_action use_attention framestack dim grayscale zero_mean custom_model
custom_action_dist custom_preprocessor tf_session_args optimizer
"""
"""Keys of RLlib's DQN, common and model defaults."""


def flat(node, path=""):
    """Every dotted key of a mapping."""
    for name, value in node.items():
        key = f"{path}.{name}" if path else name
        yield key
        if isinstance(value, dict):
            yield from flat(value, key)


def load(file):
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


@pytest.fixture(scope="module")
def keys():
    """Every key that a composition can have."""
    found = {*flat(load(CONF / "config.yaml")), *OF_A_RUN}
    for name in ("process", "ray", "ddp"):  # their keys are global
        found |= {*flat(load(CONF / "hardware" / f"{name}.yaml"))}
    for group in GROUPS:
        for file in (CONF / group).rglob("*.yaml"):
            folder = file.parent.relative_to(CONF).as_posix().removesuffix("/shared")
            found |= {f"{folder.replace('/', '.')}.{key}" for key in flat(load(file))}
    return found


def read(page):
    """A page without its examples of commands."""
    return re.sub(r"```.*?```", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def overrides(page):
    """The words in code of a page, without the left columns of its tables."""
    for line in read(page).splitlines():
        text = re.sub(r"^\|.*? \| ", "| ", line)
        for span in re.findall(r"`([^`]+)`", text):
            yield from span.replace("'", "").split()


def problem(word, before, keys):
    """What is wrong with a word, None if nothing is; and the key that it names, None if none."""
    if "(" in word or ")" in word or word in ("=", "+"):  # Python, signs
        return None, before
    name, equals, value = word.partition("=")
    added, name = name.startswith("+"), name.lstrip("+")
    if name.startswith(".") and before is not None:
        name = before.rpartition(".")[0] + name
    if "/" in name and name.partition("/")[0] in REPORTED:
        return (None if name in METRICS else "no such metric"), None
    root = re.split(r"[./]", name)[0]
    if equals and (name in (*GROUPS, "experiment") or (root == "algo" and "/" in name)):
        choices = [choice for choice in value.strip("[]").split(",") if choice]
        missing = [c for c in choices if not (CONF / name / f"{c}.yaml").exists()]
        return (f"no {missing}" if missing and value != "…" else None), None
    if added:
        free = any(name.startswith(f"{node}.") for node in FREE_FORM)
        return (None if free else "+ is not for this key"), name
    if root in ROOTS and "." in name and re.fullmatch(r"[a-z_.]+", name):
        return (None if name in keys else "no such key"), name
    if equals and name != "explore":  # a keyword of functions
        return (None if name in keys else "no such key"), None
    return None, before if name.startswith(".") else None


@pytest.mark.parametrize("page", PAGES)
def test_every_name_on_the_right_exists(page, keys):
    before, wrong, named = None, [], 0
    for word in overrides(page):
        what, key = problem(word.rstrip(",;"), before, keys)
        if what:
            wrong.append(f"{word}: {what}")
        before = key or before
        named += key is not None
    assert not wrong, "\n".join(wrong)
    assert named > 30


@pytest.mark.parametrize(
    "word", ["algo.loss.gama", "algo=dqm", "tset.interval=3", "+algo.x=1", "test/return", ".lr"]
)
def test_a_wrong_name_would_be_noticed(word, keys):
    assert problem(word, "algo.loss.gamma", keys)[0] is not None


@pytest.mark.parametrize(("page", "theirs"), [(PAGES[0], PYMARL), (PAGES[1], RLLIB)])
def test_no_key_of_theirs_is_forgotten(page, theirs):
    said = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", read(page)))))
    assert set(theirs.split()) - said == set()


@pytest.mark.parametrize("page", PAGES)
def test_tables_are_those_of_the_aliases(page):
    """``python docs/tables.py`` writes them."""
    tables = runpy.run_path(str(DOCS / "tables.py"))
    assert (DOCS / "combinations.md").read_text() == tables["refused"]()
    text = (DOCS / page).read_text(encoding="utf-8")
    assert tables["written"](page, text) == text


DOCUMENTS = [*sorted(DOCS.parent.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


def test_links_lead_somewhere():
    links = [
        (document, link)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    ]
    assert len(links) > 100
    assert [(at.name, link) for at, link in links if not (at.parent / link).exists()] == []


def headings(document):
    """The anchors of a page, as GitHub and MkDocs make them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in found}


def test_links_lead_to_headings():
    links = [
        (document, link, document.parent / path if path else document, anchor)
        for document in DOCUMENTS
        for link in re.findall(r"\]\(([^):]*#[^)]*)\)", document.read_text(encoding="utf-8"))
        for path, _, anchor in [link.partition("#")]
    ]
    assert len(links) > 40
    assert [(at.name, link) for at, link, to, anchor in links if anchor not in headings(to)] == []


def test_the_index_lists_every_page():
    text = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("index.md"))
    listed = {Path(link).name for link in re.findall(r"\]\(([\w/]+\.md)\)", text)}
    assert listed == {path.name for path in DOCS.rglob("*.md")}


@pytest.mark.parametrize(("group", "folder"), [("algo", "algorithms"), ("env", "environments")])
def test_every_choice_has_a_page(group, folder):
    text = (DOCS / folder / "index.md").read_text(encoding="utf-8")
    choices = {path.stem for path in (CONF / group).glob("*.yaml")}
    assert choices - set(re.findall(r"`(\w+)`", text)) == set()


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("material", reason="the extra docs is not installed")
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "algorithms/qmix.html").read_text(encoding="utf-8")
    assert "<math" in page
    assert "algo.mixer.embed_dim" in page
    assert "greedy joint action" in (tmp_path / "reference/rltrain.algo.html").read_text("utf-8")
    home = tmp_path / "index.html"
    assert "training.svg" in home.read_text(encoding="utf-8"), "the README is the home"
    assert "https://unpkg.com" not in home.read_text(encoding="utf-8")
    if CHROMIUM is not None:  # the search of pages that are opened from a folder
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000"]
        options += [f"--user-data-dir={tmp_path}/p", "--dump-dom", f"file://{home}?q=mixer"]
        found = subprocess.run([CHROMIUM, *options], capture_output=True, text=True).stdout
        assert "matching documents" in found


def test_no_file_has_the_marks_of_an_unfinished_merge():
    root, mark = DOCS.parent, re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    folders = ("docs", "conf", "rltrain", "tests", "benchmarks", "examples", ".ci")
    files = [file for folder in folders for file in (root / folder).rglob("*.*")]
    files += root.glob("*.*")
    files = [file for file in files if file.is_file() and "__pycache__" not in file.parts]
    assert [file for file in files if mark.search(file.read_bytes())] == []


def test_lines_of_text_fit_on_a_screen():
    for document in DOCUMENTS:
        text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
        long = [line for line in text.splitlines() if len(line) > 120 and line[0] != "|"]
        assert long == [], document
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150, "details belong to a page of docs/"


def test_commands_fit_into_the_column_of_the_site():
    """But words in quotes, which cannot be divided."""
    for document in DOCUMENTS:
        blocks = re.findall(r"```bash\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
        lines = [line for block in blocks for line in block.splitlines() if len(line) > 78]
        long = [line for line in lines if not re.match(r" +\S*'[^']*'( \\)?$", line)]
        assert long == [], document


SHOWN = "".join((DOCS.parent / page).read_text("utf-8") for page in results.PAGES)
PRINTED = {found[1]: found[0] for found in results.PRINTED.finditer(SHOWN)}
QUICK = ("costs", "game", "ranking", "table maps", "table minatar", "table lbf-vdn mpe-vdn")


@pytest.mark.parametrize("name", slow_except(QUICK, PRINTED))
def test_tables_of_results_are_those_of_the_kept_runs(name):
    """``python -m benchmarks.results write`` puts them there, from benchmarks/data."""
    assert results.PRINTED.sub(results.printed, PRINTED[name]) == PRINTED[name]


def test_every_group_with_kept_runs_has_one_table():
    assert {f"table {group}" for group in filter(results.kept_names, TASKS)} <= PRINTED.keys()
    assert "costs" in PRINTED
    assert len(PRINTED) == len(results.PRINTED.findall(SHOWN))


def test_results_that_differ_from_published_ones_are_explained():
    table, _, below = read("results.md").partition("\nThe others, and what is known of them:\n")
    explained = re.findall(r"^\* `([\w-]+)`", below.partition("\n## ")[0], re.MULTILINE)
    assert set(re.findall(r"^\| (\S+) \|.*\| no \|$", table, re.MULTILINE)) == set(explained)


def test_the_readme_sums_up_the_results_and_the_calibration():
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    near = re.search(r"^(\d+ of \d+ results) \(", read("results.md"), re.MULTILINE)
    assert near
    assert (
        f"{near[1]} with a published value at the same number of env steps are within a tenth"
        in readme
    )
    rows = dict(
        re.findall(r"^\| (.+?) \|.*\| (\S+) \| \d+ \|$", read("calibration.md"), re.MULTILINE)
    )
    reached = rows["values at 0.8 of the rate in the game, of 19"]
    distance = float(rows["policies: mean distance from the range in the game, points"])
    assert f"{reached} of 19 maps and methods (mean distance {distance:.0f} points" in readme


def test_the_page_of_smacv2_has_the_win_rates_of_the_results():
    rows = re.findall(r"^\| \w+_5_vs_5((?: \| \d+){4})", read("results.md"), re.MULTILINE)
    _, here, game = zip(*[row.split(" | ")[2:5] for row in rows], strict=True)
    page = " ".join(read("environments/smacv2.md").split())
    for rates, end in ((here, "% of the battles"), (game, "% in StarCraft II")):
        assert f"{rates[0]}, {rates[1]} and {rates[2]}{end}" in page


def test_the_page_of_metrics_has_every_metric():
    assert set(METRICS) - set(re.findall(r"`([\w/]+)`", read("metrics.md"))) == set()


@pytest.mark.parametrize("page", ["difficulty", "calibration", "environments/smac"])
def test_what_was_measured_on_battles_is_of_the_rules_of_today(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert f"under version {RULES_VERSION} of the rules" in " ".join(text.split())


def test_the_files_and_constants_of_the_battle_engine_exist():
    text = (DOCS / "battles.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:data|engine|smaclite)/\w+\.py)(?:: ([^`]+))?`", text)
    assert len(named) > 20
    for file, constants in named:
        source = (DOCS.parent / "rltrain/battles" / file).read_text(encoding="utf-8")
        assert [name for name in constants.split(", ") if name not in source] == [], file


def test_the_files_to_change_exist():
    table = read("architecture.md").partition("## Which file to change\n")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w/]+/(?:\w+\.(?:pyi?|yaml|json|txt))?)`", table)
    assert len(named) > 80
    roots = (DOCS.parent, DOCS.parent / "rltrain")
    assert [name for name in named if not any((root / name).exists() for root in roots)] == []


def test_lines_of_the_folders_are_about_as_many_as_the_document_tells():
    package, text = DOCS.parent / "rltrain", (DOCS / "architecture.md").read_text("utf-8")
    section = text.partition("## What it costs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([`a-z/. ]+) \| ([0-9,]+) \|", section, flags=re.MULTILINE)
    folders = [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(rows) == section.count("\n| `")
    packages = [path.name for path in package.iterdir() if any(path.glob("*.py"))]
    assert sorted([*folders, "examples"]) == sorted(packages)
    for names, told in rows:
        places = [package / name for name in re.findall(r"`(.+?)`", names)]
        files = [f for p in places for f in ([p] if p.suffix else p.rglob("*.py"))]
        lines = sum(len(f.read_text("utf-8").splitlines()) for f in files)
        assert lines == pytest.approx(int(told.replace(",", "")), rel=0.08), names


def test_counts_of_faults_are_those_of_the_kept_records():
    text = (DOCS / "reliability.md").read_text(encoding="utf-8")
    counts = re.findall(r"`(\w+)` \(([\d,]+)\)", text.partition("## Every fault")[2])
    assert len(counts) > 15
    for kind, count in counts:
        record = json.loads((DOCS.parent / f"benchmarks/data/faults/{kind}.json").read_bytes())
        assert record["cases"] == record["passed"] == int(count.replace(",", "")), kind
