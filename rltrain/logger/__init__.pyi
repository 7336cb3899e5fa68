from rltrain.logger.loggers import Logger as Logger
from rltrain.logger.metric_files import CsvFile as CsvFile
from rltrain.logger.tensorboard import TensorBoard as TensorBoard
from rltrain.logger.trackio import Trackio as Trackio
from rltrain.logger.wandb import Wandb as Wandb
