from rltrain.api import Result as Result
from rltrain.api import evaluate as evaluate
from rltrain.api import load_policy as load_policy
from rltrain.api import make_learner as make_learner
from rltrain.api import make_trainer as make_trainer
from rltrain.api import match as match
from rltrain.api import resume as resume
from rltrain.api import train as train
from rltrain.env.check import check_env as check_env
from rltrain.report.run_groups import load_runs as load_runs

__version__: str
