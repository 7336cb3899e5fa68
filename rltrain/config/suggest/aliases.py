"""Names of other libraries and what they are here: one table, from which suggestions are made and
the tables of ``docs/from_*.md`` are written (``python docs/tables.py``).

A new name is one more row. Rows of one library come first where a name is looked up, in the order
of ``TABLES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Row(NamedTuple):
    """Names of theirs and what to type for them.

    Attributes:
        theirs: their names, separated by blanks.
        ours: our keys, one for each of theirs, or one for all of them; ``a|b`` are alternatives, of
            which the one that is set is taken. Empty: there is nothing to set.
        note: what else the documents say.
        values: what to type for each value of theirs, instead of ``ours``.
        convert: how a number of theirs becomes one of ours.
    """

    theirs: str
    ours: str = ""
    note: str = ""
    values: Mapping[str, str] = {}
    convert: Literal["", "reciprocal", "share"] = ""

    def target(self, name: str) -> str:
        """What to type for one of their names."""
        names, keys = self.theirs.split(), self.ours.split()
        return keys[names.index(name)] if len(keys) == len(names) else self.ours


def switch(on: str, off: str = "") -> dict[str, str]:
    """What to type for true and for false."""
    return {"true": on, "false": off}


TARGET = "algo.target_update.episodes|algo.target_update.env_steps|algo.target_update.updates"
EVALUATE = "mode=evaluate checkpoint=latest"
PYMARL_RUN = (
    Row("t_max", "total_env_steps"),
    Row("batch_size_run", "hardware.n_envs", "environments side by side, in one process"),
    Row("runner", values={"episode": "hardware.n_envs=1", "parallel": "hardware.n_envs=8"}),
    Row(
        "test_interval test_nepisode",
        "test.interval test.episodes",
        "tests at step 0, every multiple and the end, of exactly so many episodes, `test.n_envs` "
        "at a time",
    ),
    Row("evaluation_epsilon test_noise", "test.epsilon"),
    Row("test_greedy", note="it has no effect on epsilon-greedy agents there; `test.epsilon` has"),
    Row("log_interval runner_log_interval learner_log_interval", "log.interval"),
    Row("use_cuda", values=switch("hardware=cuda", "hardware=cpu"), note="default `hardware=auto`"),
    Row("buffer_cpu_only", note="the buffer is in main memory, only batches travel"),
    Row("cpu_inference", note="agents act where the learner is"),
    Row("thread_num", "hardware.threads"),
    Row("save_model", note="checkpoints are always saved, at the end and on Ctrl-C, too"),
    Row("save_model_interval", "save.interval", "see also `save.keep_last`"),
    Row("checkpoint_path", "checkpoint", "or `resume`, to go on in the same folder"),
    Row("load_step", "load_step", "the nearest one, and it is printed which; null = the newest"),
    Row("evaluate", values=switch(EVALUATE)),
    Row("render save_replay", values=switch(f"{EVALUATE} record=true"), note="videos"),
    Row("local_results_path", "hydra.run.dir", "the folder of one run; `outputs/…` by default"),
    Row("use_tensorboard", note="metrics go to `metrics.jsonl` and wandb"),
    Row("use_wandb", values=switch("logger.wandb.mode=online", "logger.wandb.mode=disabled")),
    Row("wandb_mode wandb_project", "logger.wandb.mode logger.wandb.project"),
    Row("wandb_team", "+logger.wandb.entity"),
    Row("wandb_save_model", note="checkpoints stay in the run folder"),
    Row("name", "+logger.wandb.name", "folders are named after algorithm, environment and time"),
    Row("label hypergroup repeat_id", note="`+logger.wandb.tags=[a,b]` can name them"),
    Row("seed", "seed", "every environment, episode and test has a stream of its own"),
    Row("episode_dir", "dataset.write", "a new folder ([offline](offline.md))"),
    Row("save_episodes clear_existing_episodes", note="`dataset.write` alone says it"),
)
PYMARL_LEARNING = (
    Row("batch_size", "algo.batch_size", "episodes, too"),
    Row("buffer_size", "buffer.capacity", "episodes, too"),
    Row(
        "accumulated_episodes num_circle training_iters",
        "algo.updates_per_episode|algo.updates_per_env_step",
        "gradient steps per finished episode; one per call of a runner with eight environments is "
        "`algo.updates_per_episode=0.125`",
    ),
    Row("gamma", "algo.loss.gamma"),
    Row("double_q", "algo.loss.double"),
    Row("n_step", "algo.loss.n_step"),
    Row("lr", "algo.optimizer.lr"),
    Row("optim_alpha optim_eps", "algo.optimizer.alpha algo.optimizer.eps"),
    Row(
        "optimizer optim",
        values={"adam": "algo/optimizer=adam", "rmsprop": "algo/optimizer=rmsprop"},
    ),
    Row("weight_decay", "+algo.optimizer.weight_decay"),
    Row("critic_lr", note="no critics"),
    Row("grad_norm_clip", "algo.max_grad_norm"),
    Row("target_update_interval", TARGET, "exactly one is set, the others are null"),
    Row(
        "target_update_interval_or_tau",
        "algo.target_update.updates",
        "with `algo.target_update.episodes=null`; up to 1 it is `algo.target_update.updates=1` "
        "with `algo.target_update.tau`",
    ),
    Row(
        "action_selector",
        values={"epsilon_greedy": "algo/exploration=epsilon_greedy"},
    ),
    Row(
        "epsilon_start epsilon_finish epsilon_anneal_time",
        "algo.exploration.start algo.exploration.end algo.exploration.env_steps",
    ),
    Row("mac agent", values={"basic_mac": "", "rnn": "algo/network=gru"}, note="the default"),
    Row("use_rnn", values=switch("algo/network=gru", "algo/network=mlp")),
    Row("rnn_hidden_dim hidden_dim", "algo.network.hidden_dim"),
    Row("obs_agent_id", "algo.network.agent_id"),
    Row("obs_last_action", "algo.network.last_action", "`env.obs_last_action` is SMAC's own"),
    Row("learner agent_output_type", note="the parts of `algo` say it"),
    Row(
        "mixer",
        values={
            "none": "algo/mixer=independent",
            "null": "algo/mixer=independent",
            "vdn": "algo/mixer=sum",
            "qmix": "algo/mixer=qmix",
        },
    ),
    Row(
        "mixing_embed_dim hypernet_layers hypernet_embed",
        "algo.mixer.embed_dim algo.mixer.hypernet_layers algo.mixer.hypernet_dim",
    ),
    Row("burn_in_period", "algo.learning_starts", "stored env steps, not episodes"),
    Row("is_save_buffer", "save.replay_buffer", "part of the newest checkpoint"),
    Row("is_batch_rl", note="`dataset.read=FOLDER` learns from a dataset ([offline](offline.md))"),
)
SMAC_OPTIONS = (
    Row("map_name step_mul move_amount", "env.map_name env.step_mul env.move_amount"),
    *(
        Row(names, " ".join(f"env.{name}" for name in names.split()))
        for names in (
            "obs_all_health obs_own_health",
            "obs_pathing_grid obs_terrain_height",
            "obs_timestep_number obs_instead_of_state",
            "state_last_action state_timestep_number",
            "reward_only_positive reward_death_value",
            "reward_win reward_defeat reward_negative_scale",
            "reward_scale reward_scale_rate reward_sparse",
            "difficulty game_version replay_dir replay_prefix debug",
        )
    ),
    Row("continuing_episode", values=switch("env.time_limit=bootstrap", "env.time_limit=terminal")),
    Row("key", "env.id", "of `gymma`: `env=gymnasium env.id=CartPole-v1`, for one agent"),
    Row("time_limit", "env.max_episode_steps", "of `gymma`"),
)
PYMARL_METRICS = (
    Row(
        "return_mean ep_length_mean battle_won_mean",
        "train/return_mean train/episode_length_mean train/win_rate",
    ),
    Row(
        "test_return_mean test_return_std test_ep_length_mean test_battle_won_mean",
        "test/return_mean test/return_std test/episode_length_mean test/win_rate",
    ),
    Row("epsilon", "train/epsilon"),
    Row("loss grad_norm td_error_abs", "learn/loss learn/grad_norm learn/td_error_abs"),
    Row("q_taken_mean target_mean", "learn/q_taken_mean learn/target_mean"),
    Row("episode", note="`episodes`, in every line of `metrics.jsonl`"),
    Row("dead_allies_mean dead_enemies_mean", note="`info` of `StarCraft2Env.step` has both"),
)
RLLIB_COLLECTING = (
    Row("env_config", "env.kwargs", "a single one: `+env.kwargs.name=value`"),
    Row("observation_space action_space", note="the environment's own"),
    Row(
        "num_envs_per_worker",
        "hardware.n_envs",
        "environments side by side, in one process",
    ),
    Row("remote_worker_envs remote_env_batch_wait_ms", note="environments are in one process"),
    Row("rollout_fragment_length", "algo.steps_per_collect", "per environment"),
    Row(
        "batch_mode sample_async sample_collector create_env_on_driver",
        note="what a window needs is looked up in the buffer",
    ),
    Row("horizon", "env.max_episode_steps"),
    Row(
        "no_done_at_end soft_horizon",
        values=switch("env.time_limit=bootstrap"),
        note="the default: a time-out is not a terminal state",
    ),
    Row("clip_rewards", "env.reward_clip"),
    Row("framestack", values=switch("env.frame_stack=4", "env.frame_stack=1")),
    Row("num_framestacks", "env.frame_stack"),
    Row(
        "preprocessor_pref dim grayscale zero_mean",
        note="`env=atari env.game=…` has ALE's preprocessing; other images are taken as they are",
    ),
    Row(
        "observation_filter",
        values={
            "meanstdfilter": "algo.network.normalize_obs=true",
            "nofilter": "algo.network.normalize_obs=false",
        },
        note="statistics of the collected observations, saved with the weights",
    ),
    Row("synchronize_filters", note="there is one filter"),
    Row("env_task_fn", note="`rltrain.examples.Curriculum` ([callbacks](callbacks.md))"),
    Row("render_env record_env", values=switch(f"{EVALUATE} record=true"), note="videos"),
    Row("explore", values=switch("", "algo/exploration=greedy")),
    Row(
        "exploration_config",
        note="`algo.exploration.start`, `algo.exploration.end`, `algo.exploration.env_steps`; other"
        " kinds: `algo/exploration=exponential`, `algo/exploration=piecewise`, "
        "`algo/exploration=boltzmann` (SoftQ), `algo/exploration=parameter_noise`",
    ),
    Row("seed", "seed", "every environment and episode has a stream of its own"),
)
RLLIB_LEARNING = (
    Row("train_batch_size", "algo.batch_size"),
    Row(
        "training_intensity",
        "algo.updates_per_env_step",
        "transitions learned per env step there, gradient steps per env step here: divide by "
        "`algo.batch_size`",
    ),
    Row("learning_starts", "algo.learning_starts", "stored steps"),
    Row("buffer_size", "buffer.capacity"),
    Row("compress_observations", note="every observation is stored once; `buffer.storage=float16`"),
    Row("store_buffer_in_checkpoints", "save.replay_buffer", "on by default"),
    Row("prioritized_replay", values=switch("buffer=prioritized", "buffer=replay")),
    Row("prioritized_replay_alpha", "buffer.alpha"),
    Row("prioritized_replay_beta", "buffer.beta"),
    Row("prioritized_replay_eps", "buffer.priority_floor"),
    Row("final_prioritized_replay_beta", "buffer.beta_end"),
    Row("prioritized_replay_beta_annealing_timesteps", "buffer.beta_env_steps"),
    Row("worker_side_prioritization", note="new transitions enter at the largest priority so far"),
    Row("replay_mode", "buffer.agents"),
    Row("replay_sequence_length max_seq_len", "buffer.sequence_length", "of `buffer=sequence`"),
    Row("replay_burn_in burn_in", "buffer.burn_in", "of `buffer=sequence`"),
    Row(
        "zero_init_states", values=switch("buffer.first_hidden=zero", "buffer.first_hidden=stored")
    ),
    Row("use_h_function", values=switch("algo.loss.rescale=1e-3", "algo.loss.rescale=null")),
    Row("h_function_epsilon", "algo.loss.rescale"),
    Row("target_network_update_freq", TARGET, "below 1, `algo.target_update.tau` moves smoothly"),
    Row("gamma n_step double_q", "algo.loss.gamma algo.loss.n_step algo.loss.double"),
    Row(
        "num_atoms v_min v_max",
        "algo.distribution.atoms algo.distribution.v_min algo.distribution.v_max",
        "of `algo=c51`",
    ),
    Row("lr adam_epsilon", "algo.optimizer.lr algo.optimizer.eps"),
    Row("lr_schedule", "algo.lr_schedule"),
    Row("grad_clip", "algo.max_grad_norm"),
    Row("before_learn_on_batch", note="`on_batch` of a callback"),
    Row("mixing_embed_dim", "algo.mixer.embed_dim"),
    Row(
        "fcnet_hiddens hiddens dueling",
        "algo.network.hidden_sizes algo.network.head_sizes algo.network.dueling",
    ),
    Row(
        "noisy",
        values=switch("algo.network.noisy_sigma=0.5 algo/exploration=greedy"),
        note="silent in tests",
    ),
    Row("sigma0", "algo.network.noisy_sigma"),
    Row("conv_filters", "algo.network.filters", "of `algo/network=conv`"),
    Row("post_fcnet_hiddens", "algo.network.hidden_sizes", "of `algo/network=conv`"),
    Row("use_lstm", values=switch("algo=drqn"), note="a GRU"),
    Row("lstm_cell_size lstm_use_prev_action", "algo.network.hidden_dim algo.network.last_action"),
    Row("custom_model custom_model_config", "algo.network._target_", "a class of your own"),
    Row("num_gpus", values={"0": "hardware=cpu", "1": "hardware=cuda"}),
)
RLLIB_TESTS = (
    Row("evaluation_interval", "test.interval", "env steps"),
    Row("evaluation_num_episodes evaluation_duration", "test.episodes", "exactly so many"),
    Row(
        "evaluation_config",
        "test.env",
        "options of the environments of tests only; see also `test.epsilon`",
    ),
    Row("custom_eval_function", "test.function", "of (trainer, episodes); gives metrics"),
    Row("timesteps_per_iteration min_iter_time_s", "log.interval", "env steps"),
    Row(
        "output output_max_file_size", "dataset.write dataset.shard_bytes", "[offline](offline.md)"
    ),
    Row("input", "dataset.read", "a folder that `dataset.write` made"),
    Row(
        "input_config input_evaluation",
        note="`offline/is_return` and `offline/wis_return`, over `dataset.held_out`",
    ),
    Row("shuffle_buffer_size postprocess_inputs", note="datasets are read in shuffled order"),
    Row("metrics_smoothing_episodes", note="means are over the episodes since the last line"),
    Row("log_level log_sys_usage", note="`train.log` holds everything"),
    Row("checkpoint_freq", "save.interval", "env steps"),
    Row("keep_checkpoints_num", "save.keep_last"),
)
RLLIB_METRICS = (
    Row("episode_reward_mean episode_len_mean", "train/return_mean train/episode_length_mean"),
    Row(
        "mean_q mean_td_error grad_gnorm cur_lr",
        "learn/q_taken_mean learn/td_error_abs learn/grad_norm learn/lr",
    ),
)
SB3 = (
    Row("total_timesteps n_timesteps", "total_env_steps"),
    Row("n_envs", "hardware.n_envs"),
    Row("learning_rate", "algo.optimizer.lr"),
    Row("buffer_size", "buffer.capacity"),
    Row("learning_starts", "algo.learning_starts"),
    Row("batch_size", "algo.batch_size"),
    Row("tau", "algo.target_update.tau"),
    Row("gamma", "algo.loss.gamma"),
    Row(
        "train_freq",
        "algo.updates_per_env_step",
        "1 / `train_freq`",
        convert="reciprocal",
    ),
    Row("gradient_steps", note="`algo.updates_per_env_step` = `gradient_steps` / `train_freq`"),
    Row("n_steps", "algo.loss.n_step", "rewards summed before the bootstrap"),
    Row("target_update_interval", TARGET, "env steps there; exactly one is set"),
    Row(
        "exploration_fraction",
        "algo.exploration.env_steps",
        "env steps, not a share of the run",
        convert="share",
    ),
    Row(
        "exploration_initial_eps exploration_final_eps",
        "algo.exploration.start algo.exploration.end",
    ),
    Row("max_grad_norm", "algo.max_grad_norm"),
    Row(
        "policy",
        values={"mlppolicy": "algo/network=mlp", "cnnpolicy": "algo/network=conv"},
        note="`algo=dqn` chooses by the observations",
    ),
    Row("net_arch", "algo.network.hidden_sizes"),
    Row("optimize_memory_usage", note="every observation is stored once"),
    Row("device", "hardware.device"),
    Row("eval_freq", "test.interval", "env steps"),
    Row("n_eval_episodes eval_episodes", "test.episodes"),
    Row("n_eval_envs", "test.n_envs"),
    Row("save_freq", "save.interval", "env steps"),
    Row("stats_window_size", note="means are over the episodes since the last line"),
    Row("verbose progress_bar progress", "logger.console"),
    Row("tensorboard_log", note="metrics go to `metrics.jsonl` and wandb"),
    Row("trained_agent", "checkpoint"),
)
CLEANRL = (
    Row("env_id", "env"),
    Row("num_envs", "hardware.n_envs"),
    Row("target_network_frequency", TARGET, "env steps there; exactly one is set"),
    Row("start_e end_e", "algo.exploration.start algo.exploration.end"),
    Row(
        "train_frequency",
        "algo.updates_per_env_step",
        "1 / `train_frequency`",
        convert="reciprocal",
    ),
    Row("n_atoms", "algo.distribution.atoms"),
    Row("num_steps", "algo.steps_per_collect", "per environment"),
    Row("q_lambda", "algo.loss.trace", "of `algo=pqn`"),
    Row("anneal_lr", note="`algo.lr_schedule=[[0,1e-3],[100000,1e-4]]`"),
    Row("num_minibatches update_epochs", note="`algo.updates_per_env_step` = epochs / batch size"),
    Row("torch_deterministic", note="a run is repeatable by its `seed`"),
    Row("cuda", values=switch("hardware=cuda", "hardware=cpu")),
    Row("track", values=switch("logger.wandb.mode=online", "logger.wandb.mode=disabled")),
    Row("wandb_project_name", "logger.wandb.project"),
    Row("wandb_entity", "+logger.wandb.entity"),
    Row("exp_name", "+logger.wandb.name"),
    Row("capture_video", values=switch(f"{EVALUATE} record=true"), note="videos"),
    Row("upload_model hf_entity", note="nothing is uploaded"),
)
OTHERS = (
    Row("algorithm method", "algo"),
    Row("environment env_name task", "env"),
    Row("map scenario", "env.map_name"),
    Row(
        "steps env_steps timesteps total_steps max_steps num_timesteps train_steps",
        "total_env_steps",
    ),
    Row("gpu use_gpu", values=switch("hardware=cuda", "hardware=cpu")),
    Row("n_threads num_threads", "hardware.threads"),
    Row("num_workers n_workers workers", note="`hardware.n_envs` environments run in one process"),
    Row("discount discount_factor", "algo.loss.gamma"),
    Row("step_size", "algo.optimizer.lr"),
    Row("target_update target_update_freq target_update_frequency", TARGET),
    Row("eps_start epsilon_initial initial_epsilon", "algo.exploration.start"),
    Row("eps_end epsilon_end epsilon_min epsilon_final final_epsilon", "algo.exploration.end"),
    Row("eps_decay epsilon_decay epsilon_decay_steps", "algo.exploration.env_steps"),
    Row("eval_interval eval_every evaluate_every", "test.interval"),
    Row("num_eval_episodes num_test_episodes test_episodes", "test.episodes"),
    Row("save_every checkpoint_interval checkpoint_every save_steps", "save.interval"),
    Row("log_every print_every", "log.interval"),
    Row("replay_size memory_size replay_capacity replay_buffer_size", "buffer.capacity"),
    Row("hidden_size hidden_units", "algo.network.hidden_dim|algo.network.hidden_sizes"),
    Row("clip_grad gradient_clip max_norm clip_grad_norm", "algo.max_grad_norm"),
    Row("load load_model ckpt checkpoint_dir model_path", "checkpoint"),
    Row("wandb", values=switch("logger.wandb.mode=online", "logger.wandb.mode=disabled")),
    Row("record_video video", values=switch(f"{EVALUATE} record=true")),
    Row("eval test_only", values=switch(EVALUATE)),
    Row("output_dir log_dir logdir save_dir run_dir results_dir", "hydra.run.dir"),
)
TABLES: Mapping[str, Mapping[str, tuple[Row, ...]]] = {
    "PyMARL": {
        "Keys of a run": PYMARL_RUN,
        "Keys of learning": PYMARL_LEARNING,
        "Keys of the environment": SMAC_OPTIONS,
        "Metrics": PYMARL_METRICS,
    },
    "RLlib": {
        "Keys of collecting": RLLIB_COLLECTING,
        "Keys of learning": RLLIB_LEARNING,
        "Keys of tests and data": RLLIB_TESTS,
        "Metrics": RLLIB_METRICS,
    },
    "Stable-Baselines3": {"Keys of Stable-Baselines3": SB3},
    "CleanRL": {"Keys of CleanRL": CLEANRL},
    "": {"": OTHERS},
}
"""By library and section. Names of no library in particular come last."""
