"""`retain`: general sentences, and questions with four options, for what training should not take away.

They have nothing to do with the tasks that teams are trained on. All are written for this set, one by one; the facts
are those of school books.
"""

import random

from envs_data.build.draft import Attachment, Draft, Group, SetSpec

SENTENCES = (
    "The river was low that summer, and children walked across it on the stones.",
    "When the lights went out, everybody in the hall began to talk at once.",
    "My grandmother kept her letters in a tin box under the stairs.",
    "Bread is made of flour, water, salt and a little yeast.",
    "If you leave the milk outside of the fridge, it will turn sour.",
    "The train to the coast leaves every hour from the second platform.",
    "Most birds fly south before the first snow falls.",
    "He opened the door slowly, because he did not want to wake the baby.",
    "The museum is closed on Mondays, but the garden is open all week.",
    "A good map shows the roads, the rivers and the height of the hills.",
    "She studied law for two years before she decided to become a teacher.",
    "The meeting was moved to Thursday because three people were ill.",
    "Nobody knew who had painted the small picture in the kitchen.",
    "Plants need light, air and water to grow.",
    "The dog waited at the gate until the school bus came around the corner.",
    "After the storm, the streets were full of broken branches.",
    "It is cheaper to repair the old roof than to build a new one.",
    "The two brothers had not spoken to each other for many years.",
    "In winter the lake freezes, and people skate from one village to the next.",
    "The doctor told him to drink more water and to sleep longer.",
    "A computer can only do what somebody has told it to do.",
    "The price of coffee has gone up again since last year.",
    "They planted an apple tree behind the house on the day their son was born.",
    "Please close the window before you leave the room.",
    "The old clock in the tower has been five minutes late for as long as I can remember.",
    "Sailors used the stars to find their way across the ocean.",
    "The library has more than ten thousand books, and most of them may be borrowed.",
    "He had read the letter three times, but he still did not understand it.",
    "Wood floats on water because it is lighter than the water it pushes away.",
    "The council voted against the new bridge by a single vote.",
    "She put on her coat, took her bag and went out without a word.",
    "The first snow of the year surprised the farmers in October.",
    "Every language has words that cannot be translated with a single word.",
    "The baker gets up at three in the morning, six days a week.",
    "A triangle has three sides, and its angles always add up to the same sum.",
    "The children built a tower of wooden blocks that was taller than their father.",
    "On clear days you can see the mountains from the roof of the hospital.",
    "The engine made a strange noise, so we stopped at the next garage.",
    "Many people were too poor to buy shoes, and walked to work without any.",
    "At the end of the concert the audience stood up and clapped for ten minutes.",
)
# Question, right answer, and three other options.
QUESTIONS = (
    ("What is the capital of France?", "Paris", "London", "Madrid", "Rome"),
    ("Which animal says meow?", "cat", "dog", "cow", "horse"),
    ("What colour is the sky on a clear day?", "blue", "green", "red", "brown"),
    ("How many days are in a week?", "seven", "five", "nine", "twelve"),
    ("What do bees make?", "honey", "milk", "bread", "wool"),
    ("Which planet do we live on?", "Earth", "Mars", "Venus", "Saturn"),
    ("What is frozen water called?", "ice", "steam", "sand", "oil"),
    ("Which season comes after summer?", "autumn", "winter", "spring", "night"),
    ("What do you use to write on paper?", "pen", "spoon", "shoe", "lamp"),
    ("Which part of the body do you hear with?", "ear", "knee", "hand", "nose"),
    ("What is the opposite of hot?", "cold", "tall", "dark", "loud"),
    ("Which fruit is yellow and long?", "banana", "apple", "cherry", "plum"),
    ("What does a thermometer measure?", "temperature", "weight", "time", "distance"),
    ("Who flies an aeroplane?", "pilot", "baker", "farmer", "nurse"),
    ("Which metal do magnets attract?", "iron", "gold", "copper", "silver"),
    ("What is the largest ocean?", "Pacific", "Atlantic", "Arctic", "Indian"),
    ("In which country are the pyramids of Giza?", "Egypt", "Brazil", "Norway", "India"),
    ("What gas do people need to breathe?", "oxygen", "helium", "hydrogen", "neon"),
    ("How many legs does a spider have?", "eight", "four", "six", "ten"),
    ("Which organ pumps the blood?", "heart", "liver", "lung", "stomach"),
    ("What is the capital of Japan?", "Tokyo", "Beijing", "Seoul", "Bangkok"),
    ("Which shape has four equal sides?", "square", "circle", "triangle", "oval"),
    ("What do caterpillars turn into?", "butterflies", "spiders", "birds", "frogs"),
    ("Which language is spoken in Brazil?", "Portuguese", "Spanish", "French", "Italian"),
    ("What is the tallest animal?", "giraffe", "elephant", "lion", "camel"),
    ("Where do fish live?", "water", "trees", "sand", "clouds"),
    ("Which instrument has black and white keys?", "piano", "violin", "drum", "flute"),
    ("What do you call the child of a cow?", "calf", "foal", "lamb", "puppy"),
    ("Which month is the first of the year?", "January", "March", "June", "December"),
    ("What covers the body of a bird?", "feathers", "scales", "fur", "bark"),
    ("What is the main part of glass made from?", "sand", "wood", "milk", "cotton"),
    ("Which star is closest to the Earth?", "Sun", "Sirius", "Vega", "Polaris"),
    ("What tool is used to hit nails?", "hammer", "saw", "brush", "needle"),
    ("Which meal do people eat in the morning?", "breakfast", "lunch", "dinner", "supper"),
    ("What grows from an acorn?", "oak", "rose", "wheat", "grass"),
    ("Which river runs through London?", "Thames", "Seine", "Danube", "Nile"),
    ("What do we call a person who writes books?", "author", "driver", "singer", "painter"),
    ("Which sense uses the tongue?", "taste", "sight", "hearing", "touch"),
    ("What is the boiling point of water in degrees Celsius?", "100", "20", "50", "500"),
    ("What does a compass needle point to?", "north", "east", "west", "down"),
)


def general(rng: random.Random) -> Draft:
    """Return one of the questions; the right option has each place as often."""
    number = rng.randrange(len(QUESTIONS))
    question, answer, *others = QUESTIONS[number]
    others.insert(number % 4, answer)
    return Draft((number,), {"question": question, "answer": answer, "choices": others})


def sentences() -> list[dict[str, str]]:
    """Return the sentences."""
    return [{"text": text} for text in SENTENCES]


SPEC = SetSpec(
    name="retain",
    description="General sentences, and questions with four options, to measure what training takes away; too few and "
    "too easy to compare models.",
    groups=(Group("general", (general,), train=0, test=len(QUESTIONS)),),
    text_column="question",
    columns=("question", "answer", "choices"),
    attachments=(Attachment("sentences", ("text",), sentences),),
)
