from rltrain.env.smac.__main__ import compile_engine as compile_engine
from rltrain.env.smac.pettingzoo import parallel_env as parallel_env
from rltrain.env.smac.smacv2 import Smacv2VectorEnv as Smacv2VectorEnv
from rltrain.env.smac.smacv2 import StarCraftCapabilityEnv as StarCraftCapabilityEnv
from rltrain.env.smac.starcraft2_env import StarCraft2Env as StarCraft2Env
from rltrain.env.smac.vector import SmacVectorEnv as SmacVectorEnv
