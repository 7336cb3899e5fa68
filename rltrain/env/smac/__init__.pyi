from rltrain.battles.__main__ import compile_engine as compile_engine
from rltrain.battles.capability_env import StarCraftCapabilityEnv as StarCraftCapabilityEnv
from rltrain.battles.pettingzoo import parallel_env as parallel_env
from rltrain.battles.starcraft2_env import StarCraft2Env as StarCraft2Env
from rltrain.env.smac.vector import Smacv2VectorEnv as Smacv2VectorEnv
from rltrain.env.smac.vector import SmacVectorEnv as SmacVectorEnv
